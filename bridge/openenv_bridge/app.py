"""The bridge: every HTTP and WebSocket route of the reference, over sessions of this process."""

from __future__ import annotations

import asyncio
import errno
import logging
import ssl
from collections.abc import Collection
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Middleware

from openenv_bridge.binary_ws import MAX_MESSAGE_BYTES, PROGRESS_INTERVAL_S
from openenv_bridge.doors import Doors
from openenv_bridge.environments import PREFIX
from openenv_bridge.guard import Guard
from openenv_bridge.http_routes import HttpRoutes
from openenv_bridge.index import IndexRoute
from openenv_bridge.leases import Leases
from openenv_bridge.mcp.sessions import McpSessions
from openenv_bridge.openapi import DocumentRoutes
from openenv_bridge.origins import OriginCheck
from openenv_bridge.prometheus import MetricsRoute
from openenv_bridge.proto_routes import proto_image
from openenv_bridge.responses import Handler, plain_errors
from openenv_bridge.sockets import PING_INTERVAL_S, Sockets
from openenv_bridge.tasks import TaskRoutes
from openenv_bridge.traces import reading_traces
from openenv_bridge.traffic import counting
from openenv_bridge.ws_messages import MAX_FRAME_BYTES
from openenv_grpc import tracing
from openenv_grpc.access import Access, Area
from openenv_grpc.errors import UnavailableError
from openenv_grpc.sessions import SessionHost
from openenv_grpc.stream import MAX_SHARED_BYTES, MAX_UNSENT_BYTES, StreamLimits

logger = logging.getLogger(__name__)

STOP_TIMEOUT_S = 5.0
"""How long stopping waits for handlers, which wait for their sessions' close."""


class Bridge:
    """Serves a host's sessions over HTTP and WebSocket, while the block lasts.

    At its end listening stops, open sockets get close code 1012, and their sessions end.
    """

    def __init__(
        self,
        host: SessionHost,
        *,
        address: str | None = "127.0.0.1",
        port: int = 0,
        unix_path: str | None = None,
        grpc_address: str | None = None,
        access: Access | None = None,
        allowed_hosts: Collection[str] = (),
        allowed_origins: Collection[str] = (),
        ssl_context: ssl.SSLContext | None = None,
        max_message_bytes: int = MAX_MESSAGE_BYTES,
        max_unsent_bytes: int = MAX_UNSENT_BYTES,
        max_shared_bytes: int = MAX_SHARED_BYTES,
        max_json_bytes: int = MAX_FRAME_BYTES,
        max_operations_per_session: int = 16,
        progress_interval_s: float = PROGRESS_INTERVAL_S,
        ping_interval_s: float = PING_INTERVAL_S,
        ping_timeout_s: float | None = None,
        stop_timeout_s: float = STOP_TIMEOUT_S,
    ) -> None:
        """Describes a bridge; entering it listens.

        `address` is `None` where only `unix_path` is listened on. `grpc_address` is told in the
        documentation. `access` has the tokens; without one, none is asked for. `allowed_hosts` are
        names by which this server is reached, beside those of loopback and the address; without
        any, a server beyond loopback takes all. `allowed_origins` are pages that may use it,
        beside those from its own hosts; `*` in either stands for all. With an `ssl_context` TLS is
        spoken, but not on the Unix socket. `max_message_bytes` holds for HTTP bodies and binary
        frames, `max_json_bytes` for frames of JSON. `max_unsent_bytes`, `max_shared_bytes`,
        `max_operations_per_session` and `progress_interval_s` hold for streams in binary frames.
        Sockets are pinged every `ping_interval_s`, never if that is 0, and closed when there was no
        answer for `ping_timeout_s`, or for as long as the interval.
        """
        self._host = host
        self._address = address
        self._port = port
        self._unix_path = unix_path
        self._grpc_address = grpc_address
        self._limits = StreamLimits(
            max_receive_bytes=max_message_bytes,
            max_unsent_bytes=max_unsent_bytes,
            max_shared_bytes=max_shared_bytes,
            max_operations_per_session=max_operations_per_session,
            progress_interval_s=progress_interval_s,
        )
        self._max_json_bytes = max_json_bytes
        self._stop_timeout_s = stop_timeout_s
        self._access = access or Access()
        self._guard = Guard(self._access, OriginCheck(address, allowed_hosts, allowed_origins))
        self._ssl_context = ssl_context
        self._ping_interval_s = ping_interval_s
        self._ping_timeout_s = ping_interval_s if ping_timeout_s is None else ping_timeout_s
        self._sockets = Sockets()
        self._stack = AsyncExitStack()

    @property
    def port(self) -> int:
        """The TCP port that is listened on; 0 if there is none."""
        return self._port

    async def __aenter__(self) -> Self:
        """Listens. Raises `UnavailableError` if the port or the path cannot be had."""
        async with AsyncExitStack() as stack:
            attachment = await stack.enter_async_context(self._host.attach(peer="bridge"))
            leases = Leases(self._host, attachment)
            mcp_sessions = McpSessions(self._host, attachment)
            stack.push_async_callback(mcp_sessions.stop)
            app = self._application(leases, mcp_sessions)
            runner = web.AppRunner(
                app,
                access_log=None,
                logger=_OneLine(logger, {}),
                handle_signals=False,
                handler_cancellation=True,  # an environment ends when nobody waits for it
                shutdown_timeout=self._stop_timeout_s,
            )
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            stack.push_async_callback(self._sockets.close_all)
            stack.push_async_callback(mcp_sessions.hang_up)
            watching = asyncio.create_task(self._watch(leases, mcp_sessions))
            stack.push_async_callback(_cancel, watching)
            await self._listen(runner, stack)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stops."""
        await self._stack.aclose()

    async def _watch(self, leases: Leases, mcp_sessions: McpSessions) -> None:
        """Looks after peers that have gone without a word, until cancelled."""
        interval_s, timeout_s = self._ping_interval_s or PING_INTERVAL_S, self._ping_timeout_s
        waited_s = 0.0
        while True:
            await asyncio.sleep(max(0.0, interval_s - waited_s))
            if self._ping_interval_s:
                await self._sockets.ping_all()
                await asyncio.sleep(timeout_s)
                await self._sockets.check_all()
                waited_s = timeout_s
            leases.end_idle()
            mcp_sessions.end_idle()

    async def _listen(self, runner: web.AppRunner, stack: AsyncExitStack) -> None:
        if self._unix_path is not None:
            await _start(web.UnixSite(runner, self._unix_path), self._unix_path, stack)
        if self._address is not None:
            site = web.TCPSite(runner, self._address, self._port, ssl_context=self._ssl_context)
            await _start(site, f"{self._address}:{self._port}", stack)
            self._port = next(each[1] for each in runner.addresses if isinstance(each, tuple))

    def _middlewares(self) -> list[Middleware]:
        traced = tracing.configured()
        reading = [] if traced is None else [reading_traces(traced)]
        counted = counting(self._host.metrics.doors)
        return [*reading, counted, plain_errors, self._guard.over_nothing]

    def _application(self, leases: Leases, mcp_sessions: McpSessions) -> web.Application:
        app = web.Application(
            middlewares=self._middlewares(),
            client_max_size=self._limits.max_receive_bytes,
        )
        doors = Doors(
            self._host,
            leases,
            mcp_sessions,
            self._sockets,
            self._access,
            limits=self._limits,
            max_json_bytes=self._max_json_bytes,
        )
        http = HttpRoutes(self._host)
        tasks = TaskRoutes(self._host)
        documents = DocumentRoutes(self._host, grpc_address=self._grpc_address)
        for method, path, area, handler in _anywhere(doors, http):
            guarded = self._guard.over(area, handler)
            app.router.add_route(method, path, guarded)
            app.router.add_route(method, PREFIX + path, guarded)
        metrics = MetricsRoute(self._host)
        index = IndexRoute(self._host, grpc_address=self._grpc_address)
        for method, path, area, handler in _fixed(index, tasks, documents, metrics):
            app.router.add_route(method, path, self._guard.over(area, handler))
        return app


Route = tuple[str, str, Area, Handler]
"""Method, path, who may reach it, and what answers."""


def _anywhere(doors: Doors, http: HttpRoutes) -> list[Route]:
    """Lists the routes that exist with an environment's name in front, and without."""
    return [
        ("GET", "/ws", Area.EPISODES, doors.ws),
        ("*", "/mcp", Area.TOOLS, doors.mcp),
        ("*", "/mcp/", Area.TOOLS, doors.mcp),
        ("POST", "/reset", Area.EPISODES, http.reset),
        ("POST", "/step", Area.EPISODES, http.step),
        ("GET", "/state", Area.EPISODES, http.state),
        ("GET", "/schema", Area.CATALOG, http.schema),
        ("GET", "/metadata", Area.CATALOG, http.metadata),
        ("GET", "/health", Area.HEALTH, http.health),
    ]


def _fixed(
    index: IndexRoute, tasks: TaskRoutes, documents: DocumentRoutes, metrics: MetricsRoute
) -> list[Route]:
    """Lists the routes that exist once."""
    return [
        ("GET", "/", Area.CATALOG, index.index),
        ("GET", "/list_environments", Area.CATALOG, tasks.list_environments),
        ("GET", PREFIX + "/splits", Area.TASKS, tasks.splits),
        ("POST", PREFIX + "/tasks", Area.TASKS, tasks.tasks),
        ("POST", PREFIX + "/num_tasks", Area.TASKS, tasks.num_tasks),
        ("POST", PREFIX + "/task", Area.TASKS, tasks.task),
        ("POST", PREFIX + "/task_range", Area.TASKS, tasks.task_range),
        ("GET", "/openapi.json", Area.CATALOG, documents.openapi),
        ("GET", "/docs", Area.CATALOG, documents.docs),
        ("GET", "/redoc", Area.CATALOG, documents.docs),
        ("GET", "/proto.binpb", Area.CATALOG, proto_image),
        ("GET", "/metrics", Area.ADMIN, metrics.metrics),
    ]


async def _start(site: web.BaseSite, where: str, stack: AsyncExitStack) -> None:
    """Listens, until the stack is left."""
    try:
        await site.start()
    except OSError as error:
        raise _cannot_listen(where, error) from error
    stack.push_async_callback(site.stop)


def _cannot_listen(where: str, error: OSError) -> UnavailableError:
    if error.errno == errno.EADDRINUSE:
        return UnavailableError(f"{where} is in use; choose another port, or 0 for a free one")
    return UnavailableError(f"cannot listen on {where}: {error.strerror or error}")


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


class _OneLine(logging.LoggerAdapter[logging.Logger]):
    """Logs what peers send wrongly in one line: where aiohttp's parser stopped helps nobody.

    On a port that many can reach bytes that are no HTTP are nothing to be warned of.
    """

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Lowers the level of what aiohttp refused to read, and leaves tracebacks out."""
        error = kwargs.get("exc_info")
        if isinstance(error, HttpProcessingError):
            super().log(logging.INFO, "no HTTP request from %s", *args)
        elif isinstance(error, web.RequestPayloadError):
            super().log(logging.INFO, "an HTTP body is not encoded as its request says")
        else:
            super().log(level, msg, *args, **{**kwargs, "exc_info": None})
