"""Traces at the doors of HTTP: each request goes on with the span that its headers name."""

from __future__ import annotations

from aiohttp import web
from aiohttp.typedefs import Middleware

from openenv_bridge.responses import Handler
from openenv_grpc.tracing import Tracing


def reading_traces(tracing: Tracing) -> Middleware:
    """Makes what reads `traceparent`, of handshakes too."""

    @web.middleware
    async def read(request: web.Request, handler: Handler) -> web.StreamResponse:
        tracing.adopt(request.headers)
        return await handler(request)

    return read
