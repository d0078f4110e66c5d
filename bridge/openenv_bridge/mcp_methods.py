"""The methods of the reference's JSON-RPC dialect: what each request becomes."""

from __future__ import annotations

from openenv_bridge import errors
from openenv_bridge.conversation import Ask, Plan
from openenv_bridge.jsonrpc import JSON_RPC_CODEC, METHOD_NOT_FOUND, JsonRpcRequest, ReplyTo
from openenv_bridge.leases import Leases
from openenv_grpc.errors import OpenEnvError, RequestConflictError
from openenv_grpc.operations import Kind, Operation
from openenv_grpc.sessions import SessionPort

CREATE = "openenv/session/create"
CLOSE = "openenv/session/close"


def tool_operation(
    request: JsonRpcRequest, reply_to: ReplyTo, *, timeout_s: float | None = None
) -> Operation | bytes:
    """Turns a request for tools into an operation, or answers what is no such request."""
    match request.method:
        case "tools/list":
            kind = Kind.LIST_TOOLS
        case "tools/call":
            kind = Kind.CALL_TOOL
            if not request.params.get("name"):
                return reply_to.failure(errors.INVALID_PARAMS, "Missing 'name' in params")
        case method:
            return reply_to.failure(METHOD_NOT_FOUND, f"Method not found: {method}")
    return Operation(
        kind=kind,
        codec=JSON_RPC_CODEC,
        payload=request.params,
        context=reply_to,
        timeout_s=timeout_s,
    )


def close_operation(
    request: JsonRpcRequest, reply_to: ReplyTo, leases: Leases
) -> tuple[SessionPort, Operation] | bytes:
    """Prepares the close of a session, or answers where there is nothing to wait for."""
    session_id = request.params.get("session_id")
    if not session_id:
        message = "Invalid params - 'session_id' is required"
        return reply_to.failure(errors.INVALID_PARAMS, message)
    try:
        session = leases.end(str(session_id))
    except RequestConflictError as error:
        return not_ready(error, reply_to)
    except OpenEnvError as error:
        return reply_to.error(error, None)
    if session is None:
        return reply_to.result({"session_id": session_id, "closed": False, "closing": True})
    operation = Operation(
        kind=Kind.CLOSE, codec=JSON_RPC_CODEC, payload=session.id, context=reply_to
    )
    return session, operation


def not_ready(error: OpenEnvError, reply_to: ReplyTo) -> bytes:
    """Answers for a session that is being built."""
    return reply_to.failure(errors.INVALID_REQUEST, f"{error.message}; retry shortly")


def plan_on_socket(
    request: JsonRpcRequest,
    reply_to: ReplyTo,
    session: SessionPort,
    leases: Leases,
    *,
    timeout_s: float | None = None,
) -> Plan:
    """Plans a request that came over a socket: it means the socket's own session."""
    match request.method:
        case "openenv/session/create":
            return reply_to.result({"session_id": session.id})
        case "openenv/session/close":
            if request.params.get("session_id") == session.id:
                message = "Cannot close active WebSocket-managed session via MCP method"
                return reply_to.failure(errors.INVALID_REQUEST, message)
            closing = close_operation(request, reply_to, leases)
            return closing if isinstance(closing, bytes) else Ask(*closing)
        case _:
            asked = tool_operation(request, reply_to, timeout_s=timeout_s)
            return asked if isinstance(asked, bytes) else Ask(session, asked)
