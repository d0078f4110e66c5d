"""Tools as actions and observations: how a trainer lists and calls them with `step`."""

from __future__ import annotations

import enum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from openenv_grpc.tools.answers import ToolResult
from openenv_grpc.types import Action, JsonValue, Observation

RESERVED_TOOL_NAMES = frozenset({"reset", "step", "state", "close"})
"""Names that no tool may have: an agent must not seem able to do what only a trainer does."""


class Tool(BaseModel):
    """A tool, as an observation lists it."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(description="Name, by which the tool is called")
    description: str = Field(description="What the tool does")
    input_schema: dict[str, Any] = Field(description="JSON Schema of the arguments")


class ToolErrorType(enum.StrEnum):
    """Why a tool call failed."""

    EXECUTION_ERROR = "execution_error"
    INVALID_ARGS = "invalid_args"
    TRANSPORT_ERROR = "transport_error"
    TOOL_NOT_FOUND = "tool_not_found"
    TIMEOUT = "timeout"


class ToolError(BaseModel):
    """A failed tool call, as an observation tells it."""

    model_config = ConfigDict(extra="forbid")

    error_type: ToolErrorType = Field(description="Kind of the failure")
    message: str = Field(description="What went wrong, for people and models")


class ListToolsAction(Action):
    """Asks for the tools."""

    type: Literal["list_tools"] = Field(default="list_tools", description="Kind of the action")


class CallToolAction(Action):
    """Calls a tool."""

    type: Literal["call_tool"] = Field(default="call_tool", description="Kind of the action")
    tool_name: str = Field(description="Name of the tool")
    arguments: dict[str, Any] = Field(
        default_factory=dict, description="Arguments of the tool, by name"
    )


class ListToolsObservation(Observation):
    """The tools."""

    tools: list[Tool] = Field(description="What can be called")


class CallToolObservation(Observation):
    """What a tool answered, or how it failed."""

    tool_name: str = Field(description="Name of the tool that was called")
    result: Any = Field(default=None, description="What the tool answered")
    error: ToolError | None = Field(default=None, description="How the call failed, if it did")

    @field_validator("result", mode="before")
    @classmethod
    def _readable(cls, result: JsonValue) -> JsonValue:
        """Gives an answer of a tool the text by which `str` shows it."""
        match result:
            case ToolResult():
                return result
            case {"content": list(), "data": _}:
                return ToolResult(result)
            case _:
                return result


TOOL_ACTIONS: dict[str, type[Action]] = {
    "list_tools": ListToolsAction,
    "call_tool": CallToolAction,
}
"""Which class the `type` of an action selects, where tools are called by `step`."""
