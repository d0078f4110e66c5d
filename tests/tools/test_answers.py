"""What tools return, as the agent and the trainer get it."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy
import pytest
from pydantic import BaseModel

from openenv_grpc.errors import UnserializableResultError
from openenv_grpc.tools import Media, ToolAnswer, ToolOutcome, ToolResult
from openenv_grpc.tools.answers import answer_of, failure

WRAPPED = {"fastmcp": {"wrap_result": True}}


class Point(BaseModel):
    x: int = 1


@dataclasses.dataclass
class Pair:
    left: int = 1


def text(*lines: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": line} for line in lines]


@pytest.mark.parametrize(
    ("value", "line", "data"),
    [
        ("hi", "hi", "hi"),
        ("", "", ""),
        (3, "3", 3),
        (1.5, "1.5", 1.5),
        (True, "true", True),
        ([1, "a"], '[1,"a"]', [1, "a"]),
        ((1, 2), "[1,2]", [1, 2]),
        ([Point(), Point(x=2)], '[{"x":1},{"x":2}]', [{"x": 1}, {"x": 2}]),
        (numpy.array([1, 2]), "[1,2]", [1, 2]),
        (b"abc", "abc", "abc"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_object_is_wrapped_as_structured_content(
    value: Any, line: str, data: Any
) -> None:
    assert answer_of(value) == ToolAnswer(
        content=text(line), structured_content={"result": data}, data=data, meta=WRAPPED
    )


@pytest.mark.parametrize(
    ("value", "line", "data"),
    [
        ({"k": [1, 2], "s": "t"}, '{"k":[1,2],"s":"t"}', {"k": [1, 2], "s": "t"}),
        (Point(), '{"x":1}', {"x": 1}),
        (Pair(), '{"left":1}', {"left": 1}),
    ],
    ids=["dictionary", "model", "dataclass"],
)
def test_an_object_is_its_own_structured_content(value: Any, line: str, data: Any) -> None:
    assert answer_of(value) == ToolAnswer(content=text(line), structured_content=data, data=data)


def test_an_object_is_wrapped_where_the_schema_says_so() -> None:
    assert answer_of({"a": 1}, wrap=True).structured_content == {"result": {"a": 1}}
    assert answer_of(None, wrap=True).structured_content == {"result": None}


def test_nothing_is_an_answer_without_content() -> None:
    assert answer_of(None) == ToolAnswer(content=[])


def test_numbers_that_json_lacks_stay_in_the_data() -> None:
    answer = answer_of(math.nan)

    assert math.isnan(answer.data)
    assert answer.content == text("null")


def test_media_are_content_blocks() -> None:
    image, sound = Media(b"x", "image/png"), Media(b"y", "audio/wav")

    assert answer_of(image).content == [{"type": "image", "data": "eA==", "mimeType": "image/png"}]
    assert answer_of(["look", image, {"a": 1}, sound]).content == [
        {"type": "text", "text": "look"},
        {"type": "image", "data": "eA==", "mimeType": "image/png"},
        {"type": "text", "text": '{"a":1}'},
        {"type": "audio", "data": "eQ==", "mimeType": "audio/wav"},
    ]


def test_an_outcome_shows_its_content_and_carries_the_rest() -> None:
    answer = answer_of(ToolOutcome("won", reward=1, terminated=True, rewards={"win": 1.0}))

    assert answer.text() == "won"
    assert (answer.reward, answer.terminated, answer.truncated) == (1, True, False)
    assert answer.rewards == {"win": 1.0}
    assert "reward" not in str(answer.as_result().keys())


def test_what_cannot_become_json_is_refused() -> None:
    with pytest.raises(UnserializableResultError):
        answer_of(object())


def test_a_failure_says_so() -> None:
    assert failure("no") == ToolAnswer(content=text("no"), is_error=True)


def test_a_result_has_the_shape_of_the_reference() -> None:
    answer = ToolAnswer(
        content=[{"type": "text", "text": "3", "_meta": {"a": 1}}, {"type": "image", "data": ""}],
        structured_content={"result": 3},
        data=3,
    )

    assert answer.as_result() == {
        "content": [
            {"type": "text", "text": "3", "annotations": None, "meta": {"a": 1}},
            {"type": "image", "data": "", "annotations": None, "meta": None},
        ],
        "structured_content": {"result": 3},
        "meta": None,
        "data": 3,
        "is_error": False,
    }


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        (answer_of("Hello").as_result(), "Hello"),
        (answer_of({"a": 1}).as_result(), '{"a":1}'),
        (answer_of(None).as_result(), ""),
        (answer_of(["a", Media(b"x", "image/png"), "b"]).as_result(), "a\nb"),
        (ToolResult(data=3), ""),
    ],
    ids=["text", "object", "nothing", "with an image", "without content"],
)
def test_a_result_is_shown_as_its_text(result: ToolResult, shown: str) -> None:
    assert str(result) == shown
