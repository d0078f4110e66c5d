"""`act`: the tool of environments that have none."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy
import pytest
from pydantic import Field

from openenv_grpc.errors import InvalidArgumentsError, ToolNotFoundError
from openenv_grpc.serialization import ActionReader
from openenv_grpc.tools.act import ActTool
from openenv_grpc.types import Action, Observation


class Move(Action):
    """Moves the piece."""

    kind: Literal["move"] = "move"
    column: int = Field(ge=0, description="From the left")


class Resign(Action):
    kind: Literal["resign"] = "resign"


class Seen(Observation):
    board: Any = None


def act(action_type: Any) -> ActTool:
    return ActTool(ActionReader(action_type), environment="chess")


def test_the_fields_of_an_action_are_the_arguments() -> None:
    info = act(Move).info
    assert info.name == "act"
    assert "chess" in info.description
    assert "Moves the piece." in info.description
    assert info.input_schema["type"] == "object"
    assert info.input_schema["properties"].keys() == {"kind", "column"}
    assert info.input_schema["properties"]["column"]["description"] == "From the left"
    assert info.input_schema["required"] == ["column"]
    assert act(Move).read("act", {"column": "3"}) == Move(column=3)


@pytest.mark.parametrize(
    "union",
    [Move | Resign, Annotated[Move | Resign, Field(discriminator="kind")]],
    ids=["plain", "discriminated"],
)
def test_a_union_of_actions_is_one_argument(union: Any) -> None:
    tool = act(union)
    schema = tool.info.input_schema
    assert (schema["type"], schema["required"]) == ("object", ["action"])
    assert schema["$defs"].keys() == {"Move", "Resign"}
    assert "metadata" not in schema["$defs"]["Move"]["properties"]
    assert tool.read("act", {"action": {"kind": "resign"}}) == Resign()
    assert tool.read("act", {"action": {"kind": "move", "column": 1}}) == Move(column=1)


@pytest.mark.parametrize(
    ("action_type", "arguments", "message"),
    [
        (Move, {}, "Invalid arguments for tool 'act': column: Field required"),
        (Move, {"column": -1}, "column: Input should be greater than or equal to 0"),
        (Move, {"column": 1, "row": 2}, "row: Extra inputs are not permitted"),
        (Move | Resign, {"kind": "resign"}, "action: Field required; kind: Unexpected argument"),
        (Annotated[Move | Resign, Field(discriminator="kind")], {"action": {"kind": "x"}},
         "action: Input tag 'x' found using 'kind' does not match"),
    ],
    ids=["missing", "range", "extra", "not wrapped", "no such kind"],
)  # fmt: skip
def test_arguments_that_do_not_fit_are_told_such_that_they_can_be_mended(
    action_type: Any, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidArgumentsError) as caught:
        act(action_type).read("act", arguments)
    assert message in caught.value.message
    assert caught.value.violations


def test_there_is_no_other_tool() -> None:
    with pytest.raises(ToolNotFoundError, match="Unknown tool: 'move'; there is one, 'act'"):
        act(Move).read("move", {})


def test_the_answer_is_what_is_observed_without_the_reward() -> None:
    seen = Seen(board=numpy.zeros((1, 2), dtype=numpy.int8), reward=1.0, done=True)
    answer = act(Move).answer(seen, done=True)
    assert answer.structured_content == answer.data == {"board": [[0, 0]], "done": True}
    assert answer.text() == '{"board":[[0,0]],"done":true}'
    assert answer.reward is None


def test_metadata_is_shown_where_there_is_some() -> None:
    answer = act(Move).answer(Seen(metadata={"turn": 1}), done=False)
    assert answer.data == {"board": None, "metadata": {"turn": 1}, "done": False}
