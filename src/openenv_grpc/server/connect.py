"""`SessionService` over gRPC: raw messages to and from a stream."""

from __future__ import annotations

import asyncio

import grpc

from openenv_grpc.access import Access
from openenv_grpc.server.aborting import Context, failures_as_status
from openenv_grpc.sessions import SessionHost
from openenv_grpc.stream import StreamLimits, serve_stream

SERVICE = "openenv_grpc.v1.SessionService"


class _RpcDuplex:
    """An RPC as a stream's source and sink of messages. Only the stream's tasks use it."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def read(self) -> bytes | None:
        """Waits for a message; `None` at the end."""
        data: object = await self._context.read()
        return data if isinstance(data, bytes) else None  # else it is grpc.aio.EOF

    async def write(self, data: bytes) -> None:
        """Sends a message. Raises `ConnectionError` once the RPC is over."""
        try:
            await self._context.write(data)
        except (grpc.aio.UsageError, grpc.aio.BaseError, grpc.aio.InternalError) as error:
            raise ConnectionResetError("the client has gone") from error


def handlers(
    host: SessionHost, limits: StreamLimits, stopping: asyncio.Future[None], access: Access
) -> grpc.GenericRpcHandler:
    """Makes the service. Messages stay bytes: the stream parses and writes them itself."""

    async def connect(_: object, context: Context) -> None:
        duplex, peer = _RpcDuplex(context), context.peer()
        async with failures_as_status(context):
            await serve_stream(
                duplex, host, peer=peer, limits=limits, stopping=stopping, access=access
            )

    method: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(connect)
    return grpc.method_handlers_generic_handler(SERVICE, {"Connect": method})
