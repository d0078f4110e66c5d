"""The doors that are WebSockets, `/ws` and `/mcp`: which protocol a handshake asks for."""

from __future__ import annotations

from aiohttp import web

from openenv_bridge.binary_ws import MAX_MESSAGE_BYTES, SUBPROTOCOL, serve_binary
from openenv_bridge.environments import requested
from openenv_bridge.leases import Leases
from openenv_bridge.mcp_http import McpHttp
from openenv_bridge.mcp_ws import serve_mcp_socket
from openenv_bridge.origins import OriginCheck
from openenv_bridge.responses import wants_websocket
from openenv_bridge.sockets import Sockets
from openenv_bridge.ws import serve_json
from openenv_bridge.ws_messages import MAX_FRAME_BYTES
from openenv_grpc.sessions import SessionHost


class Doors:
    """Handshakes, and `/mcp` in all its forms."""

    def __init__(
        self,
        host: SessionHost,
        leases: Leases,
        sockets: Sockets,
        origins: OriginCheck,
        *,
        max_message_bytes: int = MAX_MESSAGE_BYTES,
    ) -> None:
        self._host = host
        self._leases = leases
        self._sockets = sockets
        self._origins = origins
        self._max_message_bytes = max_message_bytes
        self._mcp_http = McpHttp(host, leases, origins)

    async def ws(self, request: web.Request) -> web.StreamResponse:
        """Serves `/ws`: binary frames by subprotocol, JSON otherwise."""
        if not wants_websocket(request):
            raise web.HTTPNotFound
        self._origins.check(request)
        environment = requested(self._host, request)
        if SUBPROTOCOL in _offered(request):
            limit = self._max_message_bytes
            async with self._sockets.accept(
                request, max_message_bytes=limit, protocols=(SUBPROTOCOL,)
            ) as socket:
                await serve_binary(socket, self._host, max_message_bytes=limit)
        else:
            async with self._sockets.accept(request, max_message_bytes=MAX_FRAME_BYTES) as socket:
                await serve_json(
                    socket,
                    self._host,
                    self._leases,
                    environment=environment,
                    session_id=request.query.get("session_id"),
                )
        return socket.response

    async def mcp(self, request: web.Request) -> web.StreamResponse:
        """Serves `/mcp`: JSON-RPC, over HTTP or a WebSocket."""
        if request.method == "POST":
            return await self._mcp_http.post(request)
        if request.method != "GET" or not wants_websocket(request):
            raise web.HTTPMethodNotAllowed(request.method, ["POST"])
        self._origins.check(request)
        environment = requested(self._host, request)
        async with self._sockets.accept(request, max_message_bytes=MAX_FRAME_BYTES) as socket:
            await serve_mcp_socket(socket, self._host, self._leases, environment=environment)
        return socket.response


def _offered(request: web.Request) -> set[str]:
    """Returns the subprotocols that a handshake offers."""
    offered = ",".join(request.headers.getall("Sec-WebSocket-Protocol", ()))
    return {name.strip() for name in offered.split(",")}
