"""`GET /proto.binpb`: the contract itself, for `buf generate http://HOST:PORT/proto.binpb`."""

from __future__ import annotations

from aiohttp import web

from openenv_grpc.wire.image import read_image


async def proto_image(request: web.Request) -> web.Response:
    """Hands out the Buf image of the protos."""
    return web.Response(
        body=read_image(),
        content_type="application/octet-stream",
        headers={"Content-Disposition": 'attachment; filename="proto.binpb"'},
    )
