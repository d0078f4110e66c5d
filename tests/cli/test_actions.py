"""Actions that are refused before they are sent."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import Field

from openenv_grpc.cli.actions import check_action
from openenv_grpc.errors import InvalidActionError, ProtocolViolationError
from openenv_grpc.serialization import ActionReader
from openenv_grpc.tools import TOOL_ACTIONS
from openenv_grpc.types import Action


class Move(Action):
    column: int = Field(ge=0, le=6)
    note: str | None = None


MOVE = ActionReader(Move).schema()
MOVE_OR_TOOL = ActionReader(Move, by_type=TOOL_ACTIONS, declared=True).schema()


@pytest.mark.parametrize("schema", [MOVE, MOVE_OR_TOOL], ids=["one class", "several"])
def test_an_action_that_fits_is_let_through(schema: dict[str, Any]) -> None:
    check_action({"column": 3, "note": None, "metadata": {}}, schema)


def test_a_tool_call_is_let_through_where_there_are_tools() -> None:
    check_action({"type": "call_tool", "tool_name": "look"}, MOVE_OR_TOOL)


@pytest.mark.parametrize("schema", [MOVE, MOVE_OR_TOOL], ids=["one class", "several"])
@pytest.mark.parametrize(
    ("action", "path", "told"),
    [
        ({"column": 9}, "/column", "9 is greater than the maximum of 6"),
        ({"column": "3"}, "/column", "is not of type 'integer'"),
        ({"row": 3, "column": 3}, "", "'row' was unexpected"),
        ({"note": "hi"}, "", "'column' is a required property"),
    ],
    ids=["too large", "wrong type", "unknown field", "missing field"],
)
def test_what_does_not_fit_is_told_of_the_environments_own_class(
    schema: dict[str, Any], action: dict[str, Any], path: str, told: str
) -> None:
    with pytest.raises(InvalidActionError) as caught:
        check_action(action, schema)

    assert told in str(caught.value)
    assert caught.value.violations[0].path == path


def test_what_does_not_fit_is_told_of_the_class_whose_type_it_has() -> None:
    with pytest.raises(InvalidActionError, match="'tool_name' is a required property"):
        check_action({"type": "call_tool"}, MOVE_OR_TOOL)


def test_a_schema_of_a_server_is_not_fetched_from_elsewhere() -> None:
    with pytest.raises(ProtocolViolationError):
        check_action({}, {"$ref": "http://127.0.0.1:1/schema.json"})


def test_a_schema_that_is_none_is_the_servers_fault() -> None:
    with pytest.raises(ProtocolViolationError):
        check_action({}, {"type": 7})
