"""Rubrics of rubrics, with blocking and asynchronous parts."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from openenv_grpc.rubrics import Gate, Rubric, RubricDict, RubricList, Sequential, WeightedSum
from tests.rubrics.test_rubric import Fixed, Slow

KINDS = pytest.mark.parametrize("kind", [Fixed, Slow], ids=["blocking", "asynchronous"])


async def score(rubric: Rubric) -> float:
    scored = rubric("action", "observation")
    number: float = await scored if inspect.isawaitable(scored) else scored
    assert rubric.last_score == number
    return number


@KINDS
@pytest.mark.parametrize(
    ("scores", "expected", "asked"),
    [([0.5, 0.7], 0.7, 2), ([0.5, 0.0, 0.7], 0.0, 2), ([0.0, 0.7], 0.0, 1), ([], 1.0, 0)],
    ids=["all", "one fails", "first fails", "empty"],
)
async def test_a_sequence_stops_at_the_first_zero(
    kind: type[Fixed], scores: list[float], expected: float, asked: int
) -> None:
    parts = [kind(number) for number in scores]

    assert await score(Sequential(*parts)) == expected
    assert sum(part.last_score is not None for part in parts) == asked


@pytest.mark.parametrize(
    "parts", [[Fixed(0.5), Slow(0.7), Fixed(0.9)], [Slow(0.5), Fixed(0.9)]], ids=["later", "first"]
)
async def test_a_sequence_goes_on_after_an_asynchronous_part(parts: list[Rubric]) -> None:
    assert await score(Sequential(*parts)) == 0.9


async def test_a_sequence_stops_after_an_asynchronous_zero() -> None:
    last = Fixed(0.9)

    assert await score(Sequential(Fixed(0.5), Slow(0.0), last)) == 0.0
    assert last.last_score is None


@KINDS
@pytest.mark.parametrize(
    ("number", "threshold", "expected"),
    [(0.5, 0.5, 0.5), (0.4, 0.5, 0.0), (0.9, 1.0, 0.0), (1.0, 1.0, 1.0)],
)
async def test_a_gate_lets_pass_what_reaches_its_threshold(
    kind: type[Fixed], number: float, threshold: float, expected: float
) -> None:
    assert await score(Gate(kind(number), threshold)) == expected


@KINDS
async def test_a_sum_is_weighted(kind: type[Fixed]) -> None:
    rubric = WeightedSum([kind(1.0), Fixed(0.5)], [0.25, 0.75])

    assert await score(rubric) == pytest.approx(0.625)
    assert rubric.weights == [0.25, 0.75]


async def test_asynchronous_parts_of_a_sum_are_awaited_together() -> None:
    both = asyncio.Barrier(2)

    class Meeting(Rubric):
        async def forward(self, action: Any, observation: Any) -> float:
            async with asyncio.timeout(5):
                await both.wait()
            return 1.0

    assert await score(WeightedSum([Meeting(), Meeting()], [0.5, 0.5])) == 1.0


@pytest.mark.parametrize(
    ("weights", "message"), [([1.0], "2 rubrics but 1 weights"), ([0.5, 0.6], "must sum to 1.0")]
)
def test_weights_that_do_not_fit_are_refused(weights: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        WeightedSum([Fixed(), Fixed()], weights)


@pytest.mark.parametrize(
    "rubric",
    [Sequential(), Sequential(Fixed()), Gate(Fixed()), WeightedSum([Fixed()], [1.0])],
    ids=["empty", "sequence", "gate", "sum"],
)
async def test_blocking_parts_make_a_number_also_while_a_loop_runs(rubric: Rubric) -> None:
    assert rubric("action", "observation") == 1.0
    assert not rubric.is_async()


def test_parts_of_a_container_have_numbered_names() -> None:
    rubric = Sequential(Gate(Fixed()), Fixed())

    assert [path for path, _ in rubric.named_rubrics()] == [
        "rubric_0",
        "rubric_0.rubric",
        "rubric_1",
    ]
    assert len(rubric) == 2
    assert rubric[1] is rubric.get_rubric("rubric_1")


def test_a_list_grows() -> None:
    first, second, third = Fixed(), Fixed(), Fixed()
    rubrics = RubricList([first])

    rubrics.append(second)
    rubrics.extend([third])

    assert list(rubrics) == list(rubrics.children()) == [first, second, third]


def test_a_dictionary_is_one() -> None:
    pong, chess = Fixed(), Fixed()
    rubrics = RubricDict({"pong": pong})

    rubrics["chess"] = chess
    rubrics.update({"pong": chess})

    assert list(rubrics) == list(rubrics.keys()) == ["pong", "chess"]
    assert rubrics["pong"] is chess
    assert "pong" in rubrics
    assert "go" not in rubrics
    assert len(rubrics) == 2
    assert list(rubrics.values()) == list(rubrics.children()) == [chess, chess]
    assert list(rubrics.items()) == [("pong", chess), ("chess", chess)]


def test_a_key_hides_no_method() -> None:
    rubrics = RubricDict({"reset": Fixed()})

    rubrics.reset()
    assert rubrics.get_rubric("reset") is rubrics["reset"]


@pytest.mark.parametrize("rubric", [RubricList(), RubricDict()], ids=["list", "dictionary"])
def test_a_mere_collection_has_no_score(rubric: Rubric) -> None:
    with pytest.raises(NotImplementedError, match="the rubric that owns it"):
        rubric("action", "observation")
