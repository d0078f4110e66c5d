"""`POST`, `GET` and `DELETE` of `/mcp`: which dialect of MCP a request speaks."""

from __future__ import annotations

from aiohttp import web

from openenv_bridge.environments import requested
from openenv_bridge.guard import token_of
from openenv_bridge.mcp import messages
from openenv_bridge.mcp.envelope import VERSION_HEADER, VERSION_META
from openenv_bridge.mcp.legacy import SESSION_HEADER, Legacy
from openenv_bridge.mcp.messages import MODERN_VERSIONS, McpError
from openenv_bridge.mcp.modern import Modern
from openenv_bridge.mcp.sessions import McpSessions
from openenv_bridge.mcp_http import McpHttp
from openenv_bridge.responses import json_response
from openenv_grpc.access import Access, Area
from openenv_grpc.sessions import SessionHost
from openenv_grpc.types import JsonValue

_LEGACY_METHODS = ("initialize", "ping")


class McpDialects:
    """Answers HTTP requests to `/mcp`."""

    def __init__(
        self, host: SessionHost, sessions: McpSessions, reference: McpHttp, access: Access
    ) -> None:
        self._host = host
        self._access = access
        self._legacy = Legacy(sessions)
        self._modern = Modern(host, sessions)
        self._reference = reference

    async def post(self, request: web.Request) -> web.StreamResponse:
        """Answers a message in the dialect that it is in."""
        body = await request.read()
        try:
            value = messages.parse(body)
        except McpError as refused:
            if SESSION_HEADER in request.headers or VERSION_HEADER in request.headers:
                return json_response(refused.written(), status=400)
            return await self._reference.post(request)
        # Asked anew: a session may end, and its agent's token with it, while a body is awaited.
        principal = self._access.admit(Area.TOOLS, token_of(request))
        if _is_modern(request, value):
            spec = requested(self._host, request)
            return await self._modern.post(request, value, spec, principal)
        if _is_legacy(request, value):
            spec = requested(self._host, request)
            return await self._legacy.post(request, value, spec, principal)
        return await self._reference.post(request)

    async def get(self, request: web.Request) -> web.StreamResponse:
        """Tells a client of the versions that have sessions of changes."""
        return await self._legacy.get(request, self._access.principal(token_of(request)))

    async def delete(self, request: web.Request) -> web.StreamResponse:
        """Ends a session of the versions that have them."""
        principal = self._access.admit(Area.TOOLS, token_of(request))
        return await self._legacy.delete(request, principal)


def _is_modern(request: web.Request, value: JsonValue) -> bool:
    header = request.headers.get(VERSION_HEADER, "")
    if header >= MODERN_VERSIONS[0]:
        return True
    if not isinstance(value, dict):
        return False
    if value.get("method") == "server/discover":
        return True
    match value.get("params"):
        case {"_meta": {**meta}}:
            asked = meta.get(VERSION_META)
            return isinstance(asked, str) and asked >= MODERN_VERSIONS[0]
        case _:
            return False


def _is_legacy(request: web.Request, value: JsonValue) -> bool:
    if SESSION_HEADER in request.headers or VERSION_HEADER in request.headers:
        return True
    if not isinstance(value, dict):
        return False
    method = value.get("method")
    notified = isinstance(method, str) and method.startswith("notifications/") and "id" not in value
    return method in _LEGACY_METHODS or notified
