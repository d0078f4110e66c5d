"""`SessionService` over gRPC: raw messages to and from a stream."""

from __future__ import annotations

import asyncio

import grpc

from openenv_grpc.access import Access
from openenv_grpc.metrics import Traffic
from openenv_grpc.server.aborting import Context, failures_as_status
from openenv_grpc.sessions import SessionHost
from openenv_grpc.stream import StreamLimits, serve_stream

SERVICE = "openenv_grpc.v1.SessionService"

DOOR = "grpc"
"""Its name in metrics."""


class _RpcDuplex:
    """An RPC as a stream's source and sink of messages. Only the stream's tasks use it."""

    def __init__(self, context: Context, traffic: Traffic) -> None:
        self._context = context
        self._traffic = traffic

    async def read(self) -> bytes | None:
        """Waits for a message; `None` at the end."""
        data: object = await self._context.read()
        if not isinstance(data, bytes):  # it is grpc.aio.EOF
            return None
        self._traffic.received_bytes += len(data)
        return data

    async def write(self, data: bytes) -> None:
        """Sends a message. Raises `ConnectionError` once the RPC is over."""
        try:
            await self._context.write(data)
        except (grpc.aio.UsageError, grpc.aio.BaseError, grpc.aio.InternalError) as error:
            raise ConnectionResetError("the client has gone") from error
        self._traffic.sent_bytes += len(data)


def handlers(
    host: SessionHost, limits: StreamLimits, stopping: asyncio.Future[None], access: Access
) -> grpc.GenericRpcHandler:
    """Makes the service. Messages stay bytes: the stream parses and writes them itself."""

    async def connect(_: object, context: Context) -> None:
        duplex, peer = _RpcDuplex(context, host.metrics.doors[DOOR]), context.peer()
        async with failures_as_status(context):
            await serve_stream(
                duplex, host, peer=peer, limits=limits, stopping=stopping, access=access
            )

    method: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(connect)
    return grpc.method_handlers_generic_handler(SERVICE, {"Connect": method})
