"""Tools as functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from openenv_grpc.code_mode import Callables
from openenv_grpc.code_mode.callables import ToolFailedError
from openenv_grpc.tools import Media, ToolAnswer, ToolInfo, ToolOutcome
from openenv_grpc.tools.answers import answer_of, failure

ADD = ToolInfo(
    name="add",
    description="Adds.",
    input_schema={"type": "object", "properties": {"a": {}, "b": {}}},
)


def functions(answer: ToolAnswer, *tools: ToolInfo) -> tuple[Callables, dict[str, Any], list[Any]]:
    asked: list[Any] = []

    def call_tool(name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
        asked.append((name, dict(arguments)))
        return answer

    callables = Callables(call_tool)
    return callables, callables.functions(tools or (ADD,)), asked


def test_arguments_are_taken_by_place_and_by_name() -> None:
    _, made, asked = functions(answer_of(3))
    assert [made["add"](1, 2), made["add"](1, b=2), made["add"](b=2, a=1)] == [3, 3, 3]
    assert asked == [("add", {"a": 1, "b": 2})] * 3
    assert (made["add"].__name__, made["add"].__doc__) == ("add", "Adds.")


def test_arguments_that_no_function_takes_are_refused() -> None:
    _, made, asked = functions(answer_of(3))
    with pytest.raises(TypeError, match=r"add\(\) takes 2 arguments, not 3"):
        made["add"](1, 2, 3)
    with pytest.raises(TypeError, match=r"add\(\) got the argument 'a' twice"):
        made["add"](1, a=2)
    assert asked == []


def test_content_without_data_comes_as_it_is() -> None:
    _, made, _ = functions(answer_of(Media(b"x", "image/png")))
    assert made["add"]()["content"][0]["type"] == "image"
    _, made, _ = functions(answer_of(None))
    assert made["add"]() is None


def test_a_failure_is_raised() -> None:
    _, made, _ = functions(failure("oh no"))
    with pytest.raises(ToolFailedError, match="oh no"):
        made["add"]()


def test_what_the_trainer_is_to_know_is_added_up() -> None:
    callables, made, _ = functions(answer_of(3))
    made["add"]()
    assert (callables.reward, callables.terminated) == (None, False)
    callables, made, _ = functions(answer_of(ToolOutcome(3, reward=0.5, terminated=True)))
    assert [made["add"](), made["add"]()] == [3, 3]
    assert (callables.reward, callables.terminated, callables.truncated) == (1.0, True, False)
