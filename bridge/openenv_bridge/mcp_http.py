"""`POST /mcp`: the reference's JSON-RPC dialect, over a session named in it or none."""

from __future__ import annotations

from aiohttp import web

from openenv_bridge.environments import requested
from openenv_bridge.guard import token_of
from openenv_bridge.jsonrpc import (
    JSON_RPC_CODEC,
    BadRequest,
    JsonRpcRequest,
    ReplyTo,
    read_request,
)
from openenv_bridge.leases import Leases
from openenv_bridge.mcp_methods import CLOSE, CREATE, close_operation, not_ready, tool_operation
from openenv_bridge.responses import json_response, peer_of
from openenv_grpc.access import Access, Agent, Area, Principal, tools_session
from openenv_grpc.environment_spec import EnvironmentSpec
from openenv_grpc.errors import (
    OpenEnvError,
    PermissionDeniedError,
    Reason,
    RequestConflictError,
)
from openenv_grpc.operations import Kind, Operation
from openenv_grpc.sessions import SessionHost, ask


class McpHttp:
    """Answers JSON-RPC requests over HTTP. Always with status 200, unless nothing can be built."""

    def __init__(self, host: SessionHost, leases: Leases, access: Access) -> None:
        self._host = host
        self._leases = leases
        self._access = access

    async def post(self, request: web.Request) -> web.Response:
        """Answers one request."""
        principal = self._access.admit(Area.TOOLS, token_of(request))
        spec = requested(self._host, request)
        read = read_request(await request.read())
        if isinstance(read, BadRequest):
            return json_response(read.answer)
        return json_response(await self._answer(*read, spec, principal, peer_of(request)))

    async def _answer(
        self,
        request: JsonRpcRequest,
        reply_to: ReplyTo,
        spec: EnvironmentSpec,
        principal: Principal,
        peer: str,
    ) -> bytes:
        if isinstance(principal, Agent) and request.method in (CREATE, CLOSE):
            raise PermissionDeniedError("an agent's token opens and closes no sessions")
        if request.method == CREATE:
            return await self._create(reply_to, spec, peer)
        if request.method == CLOSE:
            return await self._close(request, reply_to)
        session_id = tools_session(principal, str(request.params.get("session_id") or ""))
        if session_id:
            return await self._in_session(session_id, request, reply_to)
        return await self._sessionless(request, reply_to, spec)

    async def _create(self, reply_to: ReplyTo, spec: EnvironmentSpec, peer: str) -> bytes:
        try:
            reply = await self._leases.open(spec.name, reply_to, peer=peer)
        except OpenEnvError as error:
            return reply_to.error(error, spec)
        return reply.content

    async def _close(self, request: JsonRpcRequest, reply_to: ReplyTo) -> bytes:
        closing = close_operation(request, reply_to, self._leases)
        if isinstance(closing, bytes):
            return closing
        return (await ask(*closing)).content

    async def _in_session(
        self, session_id: str, request: JsonRpcRequest, reply_to: ReplyTo
    ) -> bytes:
        try:
            session = self._leases.find(session_id)
        except RequestConflictError as error:
            return not_ready(error, reply_to)
        except OpenEnvError as error:
            return reply_to.error(error, None)
        asked = tool_operation(request, reply_to)
        if isinstance(asked, bytes):
            return asked
        return (await ask(session, asked)).content

    async def _sessionless(
        self, request: JsonRpcRequest, reply_to: ReplyTo, spec: EnvironmentSpec
    ) -> bytes:
        """Builds an environment for this request alone, even if its method does not exist."""
        asked = tool_operation(request, reply_to)
        operation = asked if isinstance(asked, Operation) else _building(reply_to)
        async with self._host.transient(spec.name) as session:
            reply = await ask(session, operation)
        if reply.error is not None and reply.error.reason is Reason.CONSTRUCTION_FAILED:
            raise reply.error
        return asked if isinstance(asked, bytes) else reply.content


def _building(reply_to: ReplyTo) -> Operation:
    """Makes an operation that is asked for nothing but that the environment be built."""
    return Operation(kind=Kind.METADATA, codec=JSON_RPC_CODEC, context=reply_to)
