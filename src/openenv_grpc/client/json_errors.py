"""The error frames of the reference's JSON protocol as our errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openenv_grpc.client.tool_answers import tool_failure
from openenv_grpc.errors import (
    Effect,
    EnvironmentFactoryError,
    EnvironmentFailedError,
    InternalError,
    InvalidActionError,
    InvalidRequestError,
    NotSupportedError,
    OpenEnvError,
    SessionCapacityError,
    SessionClosedError,
    Violation,
)
from openenv_grpc.serialization import json_pointer
from openenv_grpc.types import JsonValue

_ENDS_SESSION = frozenset({"CAPACITY_REACHED", "FACTORY_ERROR", "SESSION_ERROR"})

_BY_CODE: dict[str, tuple[type[OpenEnvError], Effect]] = {
    "CAPACITY_REACHED": (SessionCapacityError, Effect.NONE),
    "FACTORY_ERROR": (EnvironmentFactoryError, Effect.NONE),
    "SESSION_ERROR": (SessionClosedError, Effect.UNKNOWN),
    "VALIDATION_ERROR": (InvalidActionError, Effect.NONE),
    "EXECUTION_ERROR": (EnvironmentFailedError, Effect.UNKNOWN),
    "INVALID_JSON": (InvalidRequestError, Effect.NONE),
    "UNKNOWN_TYPE": (NotSupportedError, Effect.NONE),
}
_FACTS = ("active_sessions", "max_sessions", "factory_name")


def error_of(data: Mapping[str, JsonValue]) -> OpenEnvError:
    """Reads the `data` of an error frame. The code's name is in `metadata`."""
    code = str(data.get("code", ""))
    kind, effect = _BY_CODE.get(code, (InternalError, Effect.UNKNOWN))
    violations = _violations(data.get("errors"))
    message = str(data.get("message", "the server gave no reason"))
    if violations:
        first = violations[0]
        message = f"{message}: {first.path or 'the whole'}: {first.message}"
    return kind(
        message,
        effect=effect,
        session_lost=code in _ENDS_SESSION,
        violations=violations,
        metadata={"code": code, **{fact: str(data[fact]) for fact in _FACTS if fact in data}},
    )


def _violations(errors: JsonValue) -> tuple[Violation, ...]:
    if not isinstance(errors, list):
        return ()
    return tuple(
        Violation(
            path=json_pointer(entry.get("loc", ())),
            type=str(entry.get("type", "")),
            message=str(entry.get("msg", "")),
        )
        for entry in errors
        if isinstance(entry, dict)
    )


def rpc_error_of(error: Mapping[str, Any], *, tool: str) -> OpenEnvError:
    """Reads the `error` of a JSON-RPC response, to a call of `tool` or, if empty, to a listing."""
    message = str(error.get("message", "the server gave no reason"))
    metadata = {"code": str(error.get("code", ""))}
    match error.get("code"):
        case -32601:
            return NotSupportedError(message, metadata=metadata)
        case -32602:
            kind = "tool_not_found" if message.startswith("Tool not found") else "invalid_args"
        case _ if message == "Environment does not support MCP":
            return NotSupportedError(message, metadata=metadata)
        case _:
            kind = "tool_not_found" if message.startswith("Unknown tool") else ""
    failure = (
        tool_failure(tool, message, error_type=kind) if tool else EnvironmentFailedError(message)
    )
    failure.metadata.update(metadata)
    return failure
