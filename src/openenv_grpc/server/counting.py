"""Bytes in and out of unary calls, counted. `Connect` counts its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc

from openenv_grpc.metrics import Traffic
from openenv_grpc.server.aborting import Context


class CountedService(grpc.GenericRpcHandler):
    """A service of methods that take and give bytes, which are counted."""

    def __init__(self, service: grpc.GenericRpcHandler, traffic: Traffic) -> None:
        self._service = service
        self._traffic = traffic

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        """Returns the method that is called, if it is of this service."""
        found = self._service.service(handler_call_details)
        if found is None or found.request_streaming:
            return found
        if found.response_streaming:
            return grpc.unary_stream_rpc_method_handler(self._streaming(found.unary_stream))
        return grpc.unary_unary_rpc_method_handler(self._unary(found.unary_unary))

    def _unary(self, method: Any) -> Any:
        traffic = self._traffic

        async def counted(data: bytes, context: Context) -> bytes:
            traffic.received_bytes += len(data)
            response: bytes = await method(data, context)
            traffic.sent_bytes += len(response)
            return response

        return counted

    def _streaming(self, method: Any) -> Any:
        traffic = self._traffic

        async def counted(data: bytes, context: Context) -> AsyncIterator[bytes]:
            traffic.received_bytes += len(data)
            async for response in method(data, context):
                traffic.sent_bytes += len(response)
                yield response

        return counted
