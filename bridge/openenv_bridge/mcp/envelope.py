"""What stands around a message of MCP: headers, and since 2026-07-28 `_meta`, checked."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping

from openenv_bridge.mcp.messages import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    MODERN_VERSIONS,
    UNSUPPORTED_VERSION,
    Call,
    CallId,
    McpError,
)
from openenv_bridge.mcp.offers import offers
from openenv_grpc.tools.notices import LOG_LEVELS

VERSION_HEADER = "MCP-Protocol-Version"
METHOD_HEADER = "Mcp-Method"
NAME_HEADER = "Mcp-Name"
SESSION_PARAMETER = "session_id"
"""In the URL: the session that is meant, for clients that bring no token."""
VERSION_META = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_META = "io.modelcontextprotocol/clientCapabilities"
LEVEL_META = "io.modelcontextprotocol/logLevel"
SUBSCRIPTION_META = "io.modelcontextprotocol/subscriptionId"

NAMED_BY: Mapping[str, str] = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
}
"""The parameter that `Mcp-Name` repeats."""

_OPENING, _CLOSING = "=?base64?", "?="


def check(call: Call, headers: Mapping[str, str]) -> None:
    """Refuses a call whose envelope is incomplete, or whose headers say something else.

    Raises:
        McpError
    """
    asked = call.meta.get(VERSION_META)
    if not isinstance(asked, str):
        raise McpError(INVALID_PARAMS, f"_meta has no {VERSION_META!r}", call_id=call.id)
    if not isinstance(call.meta.get(CAPABILITIES_META), dict):
        raise McpError(INVALID_PARAMS, f"_meta has no {CAPABILITIES_META!r}", call_id=call.id)
    _check_header(call, headers, VERSION_HEADER, asked)
    check_version(asked, call_id=call.id)
    _check_header(call, headers, METHOD_HEADER, call.method)
    if call.method in NAMED_BY:
        _check_header(call, headers, NAME_HEADER, call.params.get(NAMED_BY[call.method]))


def check_version(asked: str, *, call_id: CallId | None = None) -> None:
    """Refuses a version that is not spoken. Raises `McpError`."""
    if asked not in MODERN_VERSIONS:
        raise McpError(
            UNSUPPORTED_VERSION,
            f"version {asked!r} is not spoken here",
            call_id=call_id,
            facts={"supported": [*MODERN_VERSIONS], "requested": asked},
        )


def log_level(call: Call) -> str | None:
    """Returns the least urgent level that a client wants to hear of; `None` for nothing."""
    level = call.meta.get(LEVEL_META)
    return level if level in LOG_LEVELS else None


def offered(call: Call) -> frozenset[str]:
    """Returns what the client offers to be asked."""
    return offers(call.meta.get(CAPABILITIES_META))


def _check_header(call: Call, headers: Mapping[str, str], name: str, expected: object) -> None:
    found = headers.get(name)
    if found is None:
        raise McpError(HEADER_MISMATCH, f"the header {name} is missing", call_id=call.id)
    if name == NAME_HEADER:
        found = decoded(found)
    if found != expected:
        message = f"the header {name} says something else than the body"
        raise McpError(HEADER_MISMATCH, message, call_id=call.id)


def header_value(value: object) -> str:
    """Writes a value such that a header can carry it."""
    text = str(value)
    plain = text.isascii() and text.isprintable() and text == text.strip()
    if plain and not text.startswith(_OPENING):
        return text
    return _OPENING + base64.b64encode(text.encode()).decode("ascii") + _CLOSING


def decoded(value: str) -> str | None:
    """Returns what a header's value stands for; `None` if it is malformed."""
    value = value.strip(" \t")
    if not (value.isascii() and value.replace("\t", " ").isprintable()):
        return None
    if not (value.startswith(_OPENING) and value.endswith(_CLOSING)):
        return value
    try:
        content = value.removeprefix(_OPENING).removesuffix(_CLOSING)
        return base64.b64decode(content, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
