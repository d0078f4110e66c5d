"""Messages of MCP: JSON-RPC read and written, versions, and codes of errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic_core import from_json

from openenv_grpc.serialization import dump_json
from openenv_grpc.types import JsonValue

CallId = str | int

LEGACY_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Versions that begin with `initialize`, oldest first."""
MODERN_VERSIONS = ("2026-07-28",)
"""Versions in which each request stands for itself."""
BATCHING_VERSION = "2025-03-26"
"""The one that has batches."""

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
SESSION_ERROR = -32000
SESSION_NOT_FOUND = -32001
LEGACY_RESOURCE_NOT_FOUND = -32002
HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022


class McpError(Exception):
    """A request was refused; the answer says why."""

    def __init__(
        self,
        code: int,
        message: str,
        *,
        call_id: CallId | None = None,
        facts: JsonValue = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.call_id = call_id
        self.facts = facts

    def written(self) -> bytes:
        """Returns the error response."""
        return error(self.call_id, self.code, self.message, facts=self.facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request, which gets an answer."""

    id: CallId
    method: str
    params: dict[str, JsonValue] = field(default_factory=dict)

    @property
    def meta(self) -> dict[str, JsonValue]:
        """What stands in `_meta`; empty if that is no object."""
        found = self.params.get("_meta")
        return found if isinstance(found, dict) else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """A message that gets no answer."""

    method: str
    params: dict[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A response of the client to what it was asked."""

    id: CallId | None
    result: JsonValue = None
    error: JsonValue = None
    """What went wrong, in the place of a result."""


Message = Call | Notification | Answer


def parse(body: bytes) -> JsonValue:
    """Reads JSON. Raises `McpError`."""
    try:
        return from_json(body)
    except ValueError as failed:
        raise McpError(PARSE_ERROR, f"Parse error: {failed}") from failed


def read(value: JsonValue) -> Message:
    """Reads a message. Raises `McpError` if it is none."""
    if not isinstance(value, dict):
        raise McpError(INVALID_REQUEST, "the body has to be one JSON-RPC message, an object")
    known_id = identifier(value.get("id"))
    if value.get("jsonrpc") != "2.0":
        raise McpError(INVALID_REQUEST, 'a message has "jsonrpc": "2.0"', call_id=known_id)
    method, params = value.get("method"), value.get("params", {})
    if method is None and ("result" in value or "error" in value):
        return Answer(id=known_id, result=value.get("result"), error=value.get("error"))
    if not isinstance(method, str):
        raise McpError(INVALID_REQUEST, "a message has a method, a string", call_id=known_id)
    if not isinstance(params, dict):
        raise McpError(INVALID_PARAMS, "params have to be an object", call_id=known_id)
    if "id" not in value:
        return Notification(method=method, params=params)
    if known_id is None:
        raise McpError(INVALID_REQUEST, "the id of a request is a string or an integer")
    return Call(id=known_id, method=method, params=params)


def written(message: Message) -> bytes:
    """Writes a message as it was read."""
    match message:
        case Call():
            return request(message.id, message.method, message.params)
        case Notification():
            return notification(message.method, message.params)
        case Answer(error=None):
            return dump_json({"jsonrpc": "2.0", "id": message.id, "result": message.result})
        case _:
            return dump_json({"jsonrpc": "2.0", "id": message.id, "error": message.error})


def request(call_id: CallId, method: str, params: Mapping[str, JsonValue]) -> bytes:
    """Writes a request."""
    return dump_json({"jsonrpc": "2.0", "method": method, "id": call_id, "params": params})


def identifier(value: JsonValue) -> CallId | None:
    """Returns what can stand for a call or its progress, text or an integer; else `None`."""
    return value if isinstance(value, str | int) and not isinstance(value, bool) else None


def result(call_id: CallId, value: Mapping[str, JsonValue]) -> bytes:
    """Writes a response."""
    return dump_json({"jsonrpc": "2.0", "id": call_id, "result": value})


def error(call_id: CallId | None, code: int, message: str, *, facts: JsonValue = None) -> bytes:
    """Writes an error response."""
    described = {"code": code, "message": message}
    if facts is not None:
        described["data"] = facts
    return dump_json({"jsonrpc": "2.0", "id": call_id, "error": described})


def answering(content: bytes, call_id: CallId, *, written_for: CallId) -> bytes:
    """Makes a response of ours that of another call."""
    old, new = (dump_json({"jsonrpc": "2.0", "id": each})[:-1] for each in (written_for, call_id))
    assert content.startswith(old)  # all that is written here does
    return new + content[len(old) :]


def notification(method: str, params: Mapping[str, JsonValue]) -> bytes:
    """Writes a notification."""
    return dump_json({"jsonrpc": "2.0", "method": method, "params": params})
