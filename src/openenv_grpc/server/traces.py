"""Traces at the gRPC door: each RPC's task goes on with the span that its metadata names."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import grpc

from openenv_grpc.tracing import Tracing

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")


class TraceReader(grpc.aio.ServerInterceptor):
    """Reads `traceparent`. There is one only where something is traced."""

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing

    async def intercept_service(
        self,
        continuation: Callable[
            [grpc.HandlerCallDetails],
            Awaitable[grpc.RpcMethodHandler[RequestT, ResponseT] | None],
        ],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[RequestT, ResponseT] | None:
        """Returns the method's own handler, which runs in this task."""
        metadata = handler_call_details.invocation_metadata or ()
        self._tracing.adopt({key: each for key, each in metadata if isinstance(each, str)})
        return await continuation(handler_call_details)
