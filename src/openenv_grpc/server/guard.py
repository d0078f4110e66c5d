"""Tokens at the gRPC door: each RPC is checked once, by its service, before anything of it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import grpc
from grpc_health.v1 import health

from openenv_grpc.access import Access, Area
from openenv_grpc.errors import OpenEnvError
from openenv_grpc.server import admin, catalog, connect, episodes, tasks, tools
from openenv_grpc.server.aborting import Context, failures_as_status
from openenv_grpc.server.methods import token_of
from openenv_grpc.server.stock_services import CHANNELZ, REFLECTION

AREAS: Mapping[str, Area] = {
    connect.SERVICE: Area.EPISODES,
    episodes.SERVICE: Area.EPISODES,
    tools.SERVICE: Area.TOOLS,
    catalog.SERVICE: Area.CATALOG,
    tasks.SERVICE: Area.TASKS,
    admin.SERVICE: Area.ADMIN,
    health.SERVICE_NAME: Area.HEALTH,
    REFLECTION: Area.CATALOG,
    CHANNELZ: Area.ADMIN,
}
"""Which area a service belongs to. One that is not listed is for trainers alone."""

FIRST_MESSAGE_S = 1.0
"""How long a stream that is refused waits for its client's first message."""

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")


class Guard(grpc.aio.ServerInterceptor):
    """Refuses RPCs to those who may not make them."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def intercept_service(
        self,
        continuation: Callable[
            [grpc.HandlerCallDetails],
            Awaitable[grpc.RpcMethodHandler[RequestT, ResponseT] | None],
        ],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[RequestT, ResponseT] | None:
        """Returns the method's own handler, or one that refuses."""
        service = handler_call_details.method.rpartition("/")[0].removeprefix("/")
        area = AREAS.get(service, Area.ADMIN)
        try:
            self._access.admit(area, token_of(handler_call_details.invocation_metadata))
        except OpenEnvError as error:
            handler = await continuation(handler_call_details)
            return _refusing(error, streaming=handler is not None and handler.request_streaming)
        return await continuation(handler_call_details)


def _refusing(error: OpenEnvError, *, streaming: bool) -> grpc.RpcMethodHandler[Any, Any]:
    """Makes a handler that ends any call with a status: a stream either way fits them all."""

    async def refuse(_: object, context: Context) -> None:
        if streaming:
            await _first_message(context)
        async with failures_as_status(context):
            raise error

    return grpc.stream_stream_rpc_method_handler(refuse)


async def _first_message(context: Context) -> None:
    """Waits for a client to write: grpc.aio's reports a write that fails, not the status."""
    reading = asyncio.ensure_future(context.read())
    await asyncio.wait((reading,), timeout=FIRST_MESSAGE_S)
    # Not cancelled, as that ends the RPC without a status. The end of the RPC ends it.
    reading.add_done_callback(lambda done: None if done.cancelled() else done.exception())
