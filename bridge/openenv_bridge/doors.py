"""The doors that are WebSockets, `/ws` and `/mcp`: which protocol a handshake asks for."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from aiohttp import web

from openenv_bridge.binary_ws import SUBPROTOCOL, serve_binary
from openenv_bridge.environments import requested
from openenv_bridge.guard import offered_subprotocols, token_of, without_token
from openenv_bridge.leases import Leases
from openenv_bridge.mcp.dialects import McpDialects
from openenv_bridge.mcp.legacy import SESSION_HEADER
from openenv_bridge.mcp.sessions import McpSessions
from openenv_bridge.mcp_http import McpHttp
from openenv_bridge.mcp_ws import serve_agent_socket, serve_mcp_socket
from openenv_bridge.responses import wants_websocket
from openenv_bridge.resumable_ws import Resuming, serve_resumable
from openenv_bridge.sockets import Socket, Sockets
from openenv_bridge.ws import serve_json
from openenv_grpc.access import Access, Agent, Area
from openenv_grpc.sessions import SessionHost
from openenv_grpc.stream import StreamLimits

JSON_SUBPROTOCOL = "openenv-grpc.json"
"""The JSON protocols, for those who have to offer one: browsers that bring a token."""


class Doors:
    """Handshakes, and `/mcp` in all its forms."""

    def __init__(
        self,
        host: SessionHost,
        leases: Leases,
        mcp_sessions: McpSessions,
        sockets: Sockets,
        access: Access,
        *,
        limits: StreamLimits,
        max_json_bytes: int,
    ) -> None:
        self._host = host
        self._leases = leases
        self._sockets = sockets
        self._access = access
        self._limits = limits
        self._max_json_bytes = max_json_bytes
        self._mcp = McpDialects(host, mcp_sessions, McpHttp(host, leases, access), access)

    async def ws(self, request: web.Request) -> web.StreamResponse:
        """Serves `/ws`: binary frames by subprotocol, JSON otherwise."""
        if not wants_websocket(request):
            raise web.HTTPNotFound
        environment = requested(self._host, request)
        if SUBPROTOCOL in offered_subprotocols(request):
            async with self._sockets.accept(
                without_token(request),
                self._host.metrics.doors["ws"],
                max_message_bytes=self._limits.max_receive_bytes,
                protocols=(SUBPROTOCOL,),
            ) as socket:
                await serve_binary(socket, self._host, self._access, limits=self._limits)
        else:
            resuming = Resuming.asked(request)
            async with self._accept_json(request, "ws") as socket:
                if resuming is not None:
                    await serve_resumable(
                        socket, self._host, self._leases, resuming, environment=environment
                    )
                    return socket.response
                await serve_json(
                    socket,
                    self._host,
                    self._leases,
                    environment=environment,
                    session_id=request.query.get("session_id"),
                )
        return socket.response

    async def mcp(self, request: web.Request) -> web.StreamResponse:
        """Serves `/mcp`: MCP and the reference's JSON-RPC over HTTP, the latter over WebSockets."""
        if request.method == "POST":
            return await self._mcp.post(request)
        if request.method == "DELETE" and SESSION_HEADER in request.headers:
            return await self._mcp.delete(request)
        if request.method == "GET" and SESSION_HEADER in request.headers:
            return await self._mcp.get(request)
        if request.method != "GET" or not wants_websocket(request):
            # Whoever has no session has nothing to be told outside of the responses to calls.
            raise web.HTTPMethodNotAllowed(request.method, ["POST", "DELETE"])
        environment = requested(self._host, request)
        principal = self._access.admit(Area.TOOLS, token_of(request))
        async with self._accept_json(request, "mcp") as socket:
            if isinstance(principal, Agent):
                await serve_agent_socket(socket, self._leases, session_id=principal.session_id)
            else:
                await serve_mcp_socket(socket, self._host, self._leases, environment=environment)
        return socket.response

    def _accept_json(self, request: web.Request, door: str) -> AbstractAsyncContextManager[Socket]:
        return self._sockets.accept(
            without_token(request),
            self._host.metrics.doors[door],
            max_message_bytes=self._max_json_bytes,
            protocols=(JSON_SUBPROTOCOL,),
        )
