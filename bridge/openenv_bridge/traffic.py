"""Bytes in and out of HTTP requests, counted. WebSockets count their own."""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from openenv_grpc.metrics import Traffic


def counting(doors: Mapping[str, Traffic]) -> Middleware:
    """Makes the middleware that counts bodies, `/mcp` by itself."""

    @web.middleware
    async def count(request: web.Request, handler: Handler) -> web.StreamResponse:
        response = await handler(request)
        traffic = doors["mcp" if request.path.rstrip("/").endswith("/mcp") else "http"]
        traffic.received_bytes += request.content.total_bytes
        if isinstance(response, web.Response) and isinstance(response.body, bytes):
            traffic.sent_bytes += len(response.body)
        return response

    return count
