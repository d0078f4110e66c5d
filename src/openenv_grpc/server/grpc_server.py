"""A gRPC server over a host of sessions: services, limits, health, reflection, a graceful stop."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from openenv_grpc import tracing
from openenv_grpc.access import Access
from openenv_grpc.errors import UnavailableError
from openenv_grpc.server import admin, catalog, connect, episodes, stock_services, tasks, tools
from openenv_grpc.server.counting import CountedService
from openenv_grpc.server.guard import Guard
from openenv_grpc.server.traces import TraceReader
from openenv_grpc.sessions import SessionHost
from openenv_grpc.stream import (
    MAX_SHARED_BYTES,
    MAX_UNSENT_BYTES,
    PROGRESS_INTERVAL_S,
    StreamLimits,
)

logger = logging.getLogger(__name__)

SERVICES = tuple(module.SERVICE for module in (connect, episodes, tools, catalog, tasks, admin))
_STOCK_SERVICES = (health.SERVICE_NAME, stock_services.REFLECTION, stock_services.CHANNELZ)

PING_INTERVAL_S = 15.0
PING_TIMEOUT_S = 10.0

_NEVER_MS = 2**31 - 1  # as gRPC has it

Drained = Callable[[float | None], object]
"""Is told that the server drains, and the seconds that episodes under way may take, if that was
said."""


class GrpcServer:
    """Serves a host over gRPC while its block is entered.

    `addresses` are `HOST:PORT` (port 0 for a free one) or `unix:PATH`.
    """

    def __init__(
        self,
        host: SessionHost,
        *,
        addresses: Sequence[str] = ("127.0.0.1:0",),
        max_message_bytes: int = 100 * 2**20,
        max_unsent_bytes: int = MAX_UNSENT_BYTES,
        max_shared_bytes: int = MAX_SHARED_BYTES,
        max_operations_per_session: int = 16,
        progress_interval_s: float = PROGRESS_INTERVAL_S,
        ping_interval_s: float = PING_INTERVAL_S,
        ping_timeout_s: float = PING_TIMEOUT_S,
        stop_grace_s: float = 5.0,
        doors: catalog.Doors | None = None,
        on_drain: Drained | None = None,
        access: Access | None = None,
        credentials: grpc.ServerCredentials | None = None,
    ) -> None:
        """Describes a server.

        Connections are pinged every `ping_interval_s`, never if that is 0, and end when there was
        no answer for `ping_timeout_s`. `credentials` are for TLS, which Unix sockets do without.
        """
        self._host = host
        self._access = access or Access()
        self._credentials = credentials
        self._addresses = tuple(addresses)
        self._stop_grace_s = stop_grace_s
        self._on_drain = on_drain
        self._limits = StreamLimits(
            max_receive_bytes=max_message_bytes,
            max_unsent_bytes=max_unsent_bytes,
            max_shared_bytes=max_shared_bytes,
            max_operations_per_session=max_operations_per_session,
            progress_interval_s=progress_interval_s,
        )
        self._ping_interval_s = ping_interval_s
        self._ping_timeout_s = ping_timeout_s
        self._doors = doors or self._own_doors
        self._health = health.aio.HealthServicer()
        self._server: grpc.aio.Server | None = None
        self._stopping: asyncio.Future[None]
        self._watch: asyncio.Task[None] | None = None
        self.ports: tuple[int, ...] = ()
        """The ports bound, in the order of the addresses; 1 for a Unix socket."""

    async def __aenter__(self) -> Self:
        """Starts to serve.

        Raises:
            UnavailableError: an address cannot be bound.
        """
        self._stopping = asyncio.get_running_loop().create_future()
        self._server = server = grpc.aio.server(
            interceptors=self._interceptors(),
            options=self._options(),
        )
        self._add_services(server)
        try:
            self.ports = tuple(self._bind(server, address) for address in self._addresses)
        except UnavailableError:
            await server.start()  # only a server that was started
            await server.stop(None)  # lets go of the addresses that it did get
            raise
        await server.start()
        await self._say(serving=True)
        self._watch = asyncio.create_task(self._follow_health())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Drains, has streams end once they have answered, and stops after the grace."""
        assert self._server is not None
        assert self._watch is not None
        self._host.drain()
        await self._watch
        self._stopping.set_result(None)
        await self._server.stop(self._stop_grace_s)

    def drain(self, limit_s: float | None) -> int:
        """Has the host take no new work. Returns the number of live sessions."""
        count = self._host.drain(limit_s)
        if self._on_drain is not None:
            self._on_drain(limit_s)
        return count

    async def _follow_health(self) -> None:
        """Says how the host is, until it drains: first of all, whoever had it drain."""
        said = True
        while said or not self._host.draining:
            if self._host.serving == said:
                await self._host.health_changed()
            else:
                said = not said
                await self._say(serving=said)

    async def _say(self, *, serving: bool) -> None:
        states = health_pb2.HealthCheckResponse
        state = states.SERVING if serving else states.NOT_SERVING
        for service in ("", *SERVICES):
            await self._health.set(service, state)

    def _interceptors(self) -> list[grpc.aio.ServerInterceptor]:
        traced = tracing.configured()
        interceptors: list[grpc.aio.ServerInterceptor] = []
        if traced is not None:
            interceptors.append(TraceReader(traced))
        if self._access.mints:
            interceptors.append(Guard(self._access))
        return interceptors

    def _options(self) -> list[tuple[str, int]]:
        size = self._limits.max_receive_bytes
        interval_ms, timeout_ms = (
            math.ceil(seconds * 1000) for seconds in (self._ping_interval_s, self._ping_timeout_s)
        )
        return [
            ("grpc.max_receive_message_length", size),
            ("grpc.max_send_message_length", -1),  # the stream keeps to what its client takes
            ("grpc.so_reuseport", 0),  # a port in use is an error, not shared
            ("grpc.keepalive_time_ms", interval_ms or _NEVER_MS),
            ("grpc.keepalive_timeout_ms", timeout_ms),
            ("grpc.http2.ping_timeout_ms", timeout_ms),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
        ]

    def _add_services(self, server: grpc.aio.Server) -> None:
        host, access = self._host, self._access
        services = (
            connect.handlers(host, self._limits, self._stopping, access),
            episodes.handlers(host, access),
            tools.ToolMethods(host, access).handlers(),
            catalog.CatalogMethods(host, self._doors).handlers(),
            tasks.TaskMethods(host).handlers(),
            admin.AdminMethods(host, self.drain).handlers(),
        )
        traffic = host.metrics.doors[connect.DOOR]
        server.add_generic_rpc_handlers([CountedService(each, traffic) for each in services])
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        reflection = stock_services.reflection((*SERVICES, *_STOCK_SERVICES))
        server.add_generic_rpc_handlers([reflection, stock_services.channelz()])

    def _bind(self, server: grpc.aio.Server, address: str) -> int:
        try:
            if self._credentials is None or address.startswith("unix:"):
                return server.add_insecure_port(address)
            return server.add_secure_port(address, self._credentials)
        except RuntimeError as error:
            raise UnavailableError(
                f"cannot listen on {address} for gRPC: the address is in use, or not this "
                "machine's; choose another, or port 0 for a free one"
            ) from error

    def _own_doors(self, environment: str) -> list[tuple[str, str]]:
        return [
            ("grpc", address if address.startswith("unix:") else _with_port(address, port))
            for address, port in zip(self._addresses, self.ports, strict=False)
        ]


def _with_port(address: str, port: int) -> str:
    return f"{address.rpartition(':')[0]}:{port}"
