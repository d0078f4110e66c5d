"""Rubrics: scores, hooks, parts."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from openenv_grpc.rubrics import Rubric


class Fixed(Rubric):
    """Does not call `super().__init__()`, as authors forget."""

    def __init__(self, score: float = 1.0) -> None:
        self.score = score

    def forward(self, action: Any, observation: Any) -> float:
        return self.score


class Slow(Fixed):
    async def forward(self, action: Any, observation: Any) -> float:
        return self.score


class Deferring(Rubric):
    """A blocking `forward` that hands on what its part returns."""

    def __init__(self, part: Rubric) -> None:
        self.part = part

    def forward(self, action: Any, observation: Any) -> Any:
        return self.part(action, observation)


def test_a_rubric_without_forward_cannot_be_made() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Rubric()  # type: ignore[abstract]  # that is the point


def test_a_score_is_returned_and_kept() -> None:
    rubric = Fixed(0.5)

    assert rubric.last_score is None
    assert rubric("action", "observation") == 0.5
    assert rubric.last_score == 0.5


@pytest.mark.parametrize("rubric", [Slow(0.5), Deferring(Slow(0.5))], ids=["own", "part's"])
async def test_an_asynchronous_score_is_awaited_and_kept(rubric: Rubric) -> None:
    score = rubric("action", "observation")

    assert inspect.isawaitable(score)
    assert rubric.is_async()
    assert await score == 0.5
    assert rubric.last_score == 0.5


async def test_a_blocking_score_is_a_number_also_while_a_loop_runs() -> None:
    assert Deferring(Fixed(0.5))("action", "observation") == 0.5
    assert not Deferring(Fixed()).is_async()


def test_hooks_see_what_goes_in_and_what_comes_out() -> None:
    seen: list[Any] = []
    rubric = Fixed(0.5)
    rubric.register_forward_pre_hook(lambda *facts: seen.append(facts))
    rubric.register_forward_hook(lambda *facts: seen.append(facts))

    rubric("a", "o")

    assert seen == [(rubric, "a", "o"), (rubric, "a", "o", 0.5)]


@pytest.mark.parametrize("rubric", [Fixed(0.5), Slow(0.5)], ids=["blocking", "asynchronous"])
async def test_asynchronous_hooks_make_the_call_asynchronous(rubric: Rubric) -> None:
    seen: list[str] = []

    async def before(*_: Any) -> None:
        seen.append("before")

    async def after(*_: Any) -> None:
        seen.append("after")

    rubric.register_forward_pre_hook(before)
    rubric.register_forward_hook(after)

    assert rubric.is_async()
    assert await rubric("a", "o") == 0.5
    assert seen == ["before", "after"]


def tree() -> Deferring:
    return Deferring(Deferring(Fixed()))


def test_parts_are_found_by_name_and_by_path() -> None:
    root = tree()
    inner = root.part
    assert isinstance(inner, Deferring)

    assert list(root.children()) == [inner]
    assert list(root.named_children()) == [("part", inner)]
    assert list(root.rubrics()) == [inner, inner.part]
    assert list(root.named_rubrics()) == [("part", inner), ("part.part", inner.part)]
    assert [path for path, _ in root.named_rubrics("root")] == ["root.part", "root.part.part"]
    assert root.get_rubric("part.part") is inner.part


@pytest.mark.parametrize("path", ["other", "part.other", ""])
def test_a_path_that_leads_nowhere_is_a_key_error(path: str) -> None:
    with pytest.raises(KeyError, match=f"no rubric at '{path}'"):
        tree().get_rubric(path)


def test_an_attribute_that_is_no_rubric_any_more_is_no_part() -> None:
    root = tree()

    root.part = None  # type: ignore[assignment]  # that is the point
    assert list(root.children()) == []
    root.part = Fixed()
    del root.part
    assert list(root.children()) == []


def test_there_is_nothing_to_reset_or_to_keep_by_default() -> None:
    rubric = Fixed()

    rubric.reset()
    rubric.load_state_dict({"a": 1})
    assert rubric.state_dict() == {}
