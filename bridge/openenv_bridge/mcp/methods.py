"""The methods of MCP: what each call asks of a session, or is answered at once."""

from __future__ import annotations

from dataclasses import replace

from openenv_bridge.mcp.codec import (
    MCP_CODEC,
    OBSERVATION_URI,
    Answering,
    observation_resource,
    tool_call,
)
from openenv_bridge.mcp.messages import INVALID_PARAMS, METHOD_NOT_FOUND, Call, McpError
from openenv_bridge.mcp.pushes import too_many
from openenv_bridge.mcp.sessions import McpSession
from openenv_grpc.errors import InvalidRequestError
from openenv_grpc.operations import Kind, Operation, PromptQuery, ResourceQuery, ToolCall
from openenv_grpc.tools.notices import LOG_LEVELS
from openenv_grpc.types import JsonValue

Plan = bytes | Operation
"""The answer, or what is to be asked for it."""


def in_session(call: Call, session: McpSession) -> Plan:
    """Plans a call of a client that has begun with `initialize`.

    Raises:
        McpError: there is no such method, or not with such parameters.
    """
    answering = Answering(id=call.id, observed=bool(session.first))
    match call.method:
        case "ping":
            return answering.result({})
        case "logging/setLevel":
            level = text(call, "level")
            if level not in LOG_LEVELS:
                raise refused(call, f"level has to be one of {', '.join(LOG_LEVELS)}")
            session.level = level
            return answering.result({})
        case "resources/subscribe":
            wanted = session.subscribed | {text(call, "uri")}
            if told := too_many(wanted):
                raise refused(call, told)
            session.subscribed |= wanted
            return answering.result({})
        case "resources/unsubscribe":
            session.subscribed.discard(text(call, "uri"))
            return answering.result({})
        case _:
            return of_both_eras(call, answering, first=session.first)


def of_both_eras(call: Call, answering: Answering, *, first: str) -> Plan:
    """Plans a call that all versions know. Raises `McpError`, as `in_session`."""
    match call.method:
        case "tools/list":
            return _operation(Kind.LIST_TOOLS, answering)
        case "tools/call":
            return tool_operation(called_tool(call)[0], answering)
        case "resources/list":
            return _operation(Kind.LIST_RESOURCES, answering)
        case "resources/templates/list":
            return _operation(Kind.LIST_RESOURCES, replace(answering, templates=True))
        case "resources/read":
            uri = text(call, "uri")
            if uri == OBSERVATION_URI and first:
                return answering.result({"contents": [observed(first)]}, caching=True)
            return _operation(Kind.READ_RESOURCE, answering, ResourceQuery(uri=uri))
        case "prompts/list":
            return _operation(Kind.LIST_PROMPTS, answering)
        case "prompts/get":
            query = PromptQuery(name=text(call, "name"), arguments=_arguments(call))
            return _operation(Kind.GET_PROMPT, answering, query)
        case "completion/complete":
            if not isinstance(call.params.get("ref"), dict):
                raise refused(call, "ref has to be an object")
            return answering.result({"completion": {"values": [], "total": 0, "hasMore": False}})
        case method:
            raise McpError(METHOD_NOT_FOUND, f"Method not found: {method}", call_id=call.id)


def tool_operation(tool: ToolCall, answering: Answering) -> Operation:
    """Makes the operation that calls a tool."""
    return _operation(Kind.CALL_TOOL, answering, tool)


def observed(first: str) -> dict[str, JsonValue]:
    """Makes the content of the resource that has the first observation."""
    mime_type = observation_resource()["mimeType"]
    return {"uri": OBSERVATION_URI, "mimeType": mime_type, "text": first}


def called_tool(call: Call) -> tuple[ToolCall, str]:
    """Reads a tool call, and the session that it names or empty text. Raises `McpError`."""
    try:
        return tool_call(call.params)
    except InvalidRequestError as error:
        raise refused(call, error.message) from error


def text(call: Call, name: str) -> str:
    """Returns a parameter that has to be there. Raises `McpError`."""
    value = call.params.get(name)
    if not isinstance(value, str) or not value:
        raise refused(call, f"{call.method} takes {name}, a string")
    return value


def refused(call: Call, message: str) -> McpError:
    """Makes the error for parameters that do not fit."""
    return McpError(INVALID_PARAMS, message, call_id=call.id)


def _arguments(call: Call) -> dict[str, JsonValue]:
    arguments = call.params.get("arguments") or {}
    if not isinstance(arguments, dict):
        raise refused(call, "arguments have to be an object")
    return arguments


def _operation(kind: Kind, answering: Answering, payload: object = None) -> Operation:
    return Operation(kind=kind, codec=MCP_CODEC, payload=payload, context=answering)
