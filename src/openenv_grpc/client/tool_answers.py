"""What servers say of tools and of their answers, in every shape that they say it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from openenv_grpc.errors import (
    DeadlineExceededError,
    Effect,
    EnvironmentFailedError,
    InvalidArgumentsError,
    NotSupportedError,
    OpenEnvError,
    ProtocolViolationError,
    ToolNotFoundError,
)
from openenv_grpc.tools import Tool, ToolErrorType, ToolResult
from openenv_grpc.types import JsonValue

_BY_TYPE: dict[str, type[OpenEnvError]] = {
    ToolErrorType.TOOL_NOT_FOUND: ToolNotFoundError,
    ToolErrorType.INVALID_ARGS: InvalidArgumentsError,
    ToolErrorType.TIMEOUT: DeadlineExceededError,
}
_NOTHING_RAN = (ToolNotFoundError, InvalidArgumentsError)


def read_tools(entries: JsonValue) -> list[Tool]:
    """Reads a list of tools, in MCP's spelling or in the reference's."""
    try:
        return [
            Tool(
                name=entry["name"],
                description=entry.get("description") or "",
                input_schema=entry.get("inputSchema") or entry.get("input_schema") or {},
            )
            for entry in entries
        ]
    except (AttributeError, KeyError, TypeError, ValidationError) as error:
        raise ProtocolViolationError("the server sent a list of tools that is none") from error


def read_result(name: str, result: JsonValue) -> JsonValue:
    """Returns what a tool answered: its data, or where there is none its content, if any.

    Raises:
        EnvironmentFailedError: the tool says that it failed.
    """
    if not (isinstance(result, dict) and "data" in result):
        return result
    answer = ToolResult(result)
    if answer.get("is_error"):
        raise tool_failure(name, str(answer))
    data = answer["data"]
    return answer if data is None and answer.get("content") else data


def read_call(name: str, observation: Mapping[str, Any]) -> JsonValue:
    """Returns what a tool answered, from the observation of a step that called it."""
    failure = observation.get("error")
    if failure:
        raise tool_failure(
            name, failure.get("message", ""), error_type=failure.get("error_type", "")
        )
    if "tool_name" not in observation:
        raise NotSupportedError("the environment has no tools that a step could call")
    return read_result(name, observation.get("result"))


def tool_failure(name: str, message: str, *, error_type: str = "") -> OpenEnvError:
    """Makes the error for a tool that failed."""
    kind = _BY_TYPE.get(error_type, EnvironmentFailedError)
    return kind(
        f"Tool '{name}' failed: {message}",
        effect=Effect.NONE if kind in _NOTHING_RAN else Effect.UNKNOWN,
        metadata={"tool_name": name},
    )
