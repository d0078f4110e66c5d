"""What people are told of an environment's schemas."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic import Field, JsonValue, TypeAdapter

from openenv_grpc.cli.summary import summary
from openenv_grpc.client.catalog import EnvironmentDescription
from openenv_grpc.serialization import json_schema
from openenv_grpc.tools import CallToolAction
from openenv_grpc.types import Action


class Place(Action):
    row: int
    colour: Literal["white", "black"] = "white"


class Say(Action):
    words: list[str] = Field(description="What to say,\n  word by word")
    to: str | None = None
    anything: JsonValue = None


def told(action: Any, **fields: Any) -> dict[str, Any]:
    schema = action if isinstance(action, dict) else json_schema(TypeAdapter(action))
    described = EnvironmentDescription(name="talk", schemas={"action": schema}, **fields)
    return summary(described, "grpc://somewhere")


def test_fields_are_told_with_type_default_and_meaning() -> None:
    action = told(Say)["action"]

    assert action["words"] == "array of string (What to say, word by word)"
    assert action["to"] == "string or null = null"
    assert action["anything"].endswith("= null")  # a type that has itself within


def test_several_kinds_of_actions_are_told_by_name_and_tool_calls_left_out() -> None:
    action = told(Place | Say | CallToolAction)["action"]

    assert list(action) == ["Place", "Say"]
    assert action["Place"] == {"row": "integer", "colour": '"white" or "black" = "white"'}


def test_where_tool_calls_are_all_there_is_they_are_told() -> None:
    assert list(told(CallToolAction)["action"]) == ["type", "tool_name", "arguments"]


@pytest.mark.parametrize("schema", [True, {}, {"properties": {"a": True}}, {"anyOf": [{}]}])
def test_a_schema_that_says_nothing_is_left_out(schema: Any) -> None:
    described = EnvironmentDescription(name="talk", schemas={"action": schema})

    assert summary(described, "") == {"name": "talk"}


def test_a_type_within_itself_is_told_as_far_as_it_helps() -> None:
    tree = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#/$defs/Tree"}}]}
    schema = {"$defs": {"Tree": tree}, "properties": {"tree": {"$ref": "#/$defs/Tree"}}}

    assert told(schema)["action"]["tree"].startswith("string or array of string or array of")


def test_sessions_and_tools_are_told() -> None:
    capabilities: dict[str, Any] = {"tools": True}
    all_of_it = told(Place, capabilities=capabilities, session_limit=4, session_count=1)

    assert all_of_it["sessions"] == "1 of 4"
    assert all_of_it["tools"] == "openenv-grpc call grpc://somewhere tools --env talk"
