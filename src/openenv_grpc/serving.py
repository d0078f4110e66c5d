"""A server with all its doors: for use in another program (`Server`), or as one (`serve`)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, Unpack

from openenv_grpc import addresses, door_limits
from openenv_grpc.access import Access
from openenv_grpc.app import read_mode
from openenv_grpc.collecting import collection_put_off
from openenv_grpc.errors import ConfigurationError
from openenv_grpc.events import log_event
from openenv_grpc.options import EngineOptions, FilePath, ServerOptions
from openenv_grpc.protection import protect
from openenv_grpc.stopping import all_ended, stopping_on_signals
from openenv_grpc.targets import Target, definition_of
from openenv_grpc.types import ServerMode

logger = logging.getLogger(__name__)

DRAIN_TIMEOUT_S = 30.0
"""How long a server that drains waits for episodes, unless something else is said."""


class Server:
    """Environments, and the doors to them.

    ```python
    async with Server("echo_env", grpc_port=0, http_port=0) as server:
        print(server.grpc_address, server.http_address)
        await server.wait_stopped()
    ```

    It runs on the loop that enters it. Leaving the block closes the doors, then all sessions.
    """

    def __init__(
        self,
        *targets: Target,
        host: str = "127.0.0.1",
        grpc_port: int | None = 50051,
        http_port: int | None = 8000,
        unix: FilePath | None = None,
        http_unix: FilePath | None = None,
        insecure: bool = False,
        tokens: str | Sequence[str] | None = None,
        token_file: FilePath | None = None,
        agent_tokens: bool = False,
        tls_cert: FilePath | None = None,
        tls_key: FilePath | None = None,
        tls_client_ca: FilePath | None = None,
        public_url: str | None = None,
        allowed_hosts: Sequence[str] = (),
        allowed_origins: Sequence[str] = (),
        mode: ServerMode | str | None = None,
        max_sessions: int | None = None,
        session_timeout_s: float | None = None,
        max_message_bytes: int = door_limits.MAX_MESSAGE_BYTES,
        max_unsent_bytes: int = door_limits.MAX_UNSENT_BYTES,
        max_shared_bytes: int = door_limits.MAX_SHARED_BYTES,
        max_json_bytes: int = door_limits.MAX_JSON_BYTES,
        isolation: str | None = None,
        drain_timeout_s: float = DRAIN_TIMEOUT_S,
        refuse_when_full: bool = False,
        progress_interval_s: float | None = None,
        ping_interval_s: float | None = None,
        ping_timeout_s: float | None = None,
        **engine: Unpack[EngineOptions],
    ) -> None:
        """Finds the environments, of which the first is the default. Opens no door yet.

        A port of 0 is any free one, `None` is none: `grpc_port`, and `http_port` for HTTP,
        WebSocket and MCP. `unix` is the path of a socket for gRPC, beside the port, and `http_unix`
        of one for the rest. `mode`,
        `max_sessions`, `session_timeout_s` and `isolation` (`thread`, `process`, `shared`,
        `inline`) come before what the environments say of themselves. `drain_timeout_s` is how
        long `drain` waits for episodes. With `refuse_when_full` no opening waits for a slot.
        `max_message_bytes` holds for messages, frames and bodies that come in, `max_json_bytes` for
        frames of JSON; past `max_unsent_bytes` of answers no more is read of a stream.
        `max_shared_bytes` is the memory that a connection from this machine may share; 0 for none.
        `EngineOptions` tells of the rest.

        Clients that ask for progress get it every `progress_interval_s`, 5, of what takes long.
        Connections are pinged every `ping_interval_s`, and end when there was no answer for
        `ping_timeout_s`: 15 and 10 by gRPC; 20, and as long as the interval, over a WebSocket. An
        interval of 0 pings never.

        With `tokens`, or those of a `token_file`, one a line, every call needs one; without
        either, that of the variable `OPENENV_GRPC_TOKEN` counts, if there is one. Agents get tokens
        then, each of one session. With `agent_tokens` they get them without any of these: who
        brings none is still a trainer, but `/mcp` and `ToolService` take agents' alone. A `host`
        that is not loopback needs a trainer's token, or `insecure`, since whoever reaches it drives
        the environments. `tls_cert` and `tls_key` are files for TLS on both ports; with
        `tls_client_ca` clients have to show a certificate too. `public_url` is where HTTP is
        reached from elsewhere. `allowed_hosts` and `allowed_origins` are names of this server and
        web pages that requests over HTTP may name, beside those of loopback; `*` is any.

        Raises:
            ConfigurationError: there is no such environment, or an option makes no sense.
        """
        if not targets:
            raise ConfigurationError("name an environment to serve")
        if grpc_port is None and http_port is None and unix is None and http_unix is None:
            raise ConfigurationError("a server without gRPC and without HTTP has no door")
        if not drain_timeout_s >= 0:
            raise ConfigurationError(f"the time to drain is at least 0, not {drain_timeout_s!r}")
        self._drain_timeout_s = drain_timeout_s
        limits = door_limits.sizes(
            max_message_bytes=max_message_bytes,
            max_unsent_bytes=max_unsent_bytes,
            max_shared_bytes=max_shared_bytes,
        )
        self._json_limit = door_limits.json_size(max_json_bytes)
        beats = door_limits.beats(
            progress_interval_s=progress_interval_s,
            ping_interval_s=ping_interval_s,
            ping_timeout_s=ping_timeout_s,
        )
        self._protection = protect(
            tokens=tokens,
            token_file=token_file,
            tls_cert=tls_cert,
            tls_key=tls_key,
            tls_client_ca=tls_client_ca,
            allowed_hosts=allowed_hosts,
            allowed_origins=allowed_origins,
            public_url=public_url,
        )
        self._access = Access(
            self._protection.tokens, agent_tokens=agent_tokens, mcp_url=self._mcp_url
        )
        if not (insecure or self._access.asks or addresses.is_loopback(host)):
            raise ConfigurationError(
                f"listening on {host!r} lets whoever reaches it drive the environments; stay on "
                "127.0.0.1, have it ask for a token (--token-file), or say insecure (--insecure) "
                "if that is meant"
            )
        overrides = _given(
            mode=None if mode is None else read_mode(mode),
            max_sessions=max_sessions,
            session_timeout_s=session_timeout_s,
            isolation=isolation,
        )
        # Here, so that importing the package, which exports `Server`, stays quick.
        from openenv_grpc.engine import EngineSettings, SessionManager

        if refuse_when_full:
            engine["max_queued"] = 0
        settings = EngineSettings(**engine)
        definitions = [replace(definition_of(target), **overrides) for target in targets]
        try:
            self._manager = SessionManager(definitions, settings)
        except TypeError as error:  # a factory that builds no environment
            raise ConfigurationError(str(error)) from error
        self._host = host
        self._grpc_port = grpc_port
        self._http_port = http_port
        self._unix = None if unix is None else Path(unix)
        self._http_unix = None if http_unix is None else Path(http_unix)
        self._manager.metrics.limits |= limits | self._json_limit
        at_once = settings.max_operations_per_session
        self._door_options: dict[str, Any] = {
            **limits,
            **beats,
            "max_operations_per_session": at_once,
        }
        self._stack = AsyncExitStack()
        self._stopped = asyncio.Event()
        self._draining: asyncio.Task[None] | None = None
        self.grpc_address: str | None = None
        """`HOST:PORT` of gRPC, once it listens."""
        self.http_address: str | None = None
        """`HOST:PORT` of HTTP, WebSocket and MCP, once they listen."""

    @property
    def unix_path(self) -> str | None:
        """Path of the gRPC socket, if there is one."""
        return None if self._unix is None else str(self._unix)

    @property
    def http_unix_path(self) -> str | None:
        """Path of the socket for HTTP, WebSocket and MCP, if there is one."""
        return None if self._http_unix is None else str(self._http_unix)

    async def __aenter__(self) -> Self:
        """Opens the doors.

        Raises:
            ConfigurationError: one cannot be opened. Those before it are closed again.
        """
        for port, option in ((self._grpc_port, "--grpc-port"), (self._http_port, "--http-port")):
            if port is not None:
                addresses.check_port(self._host, port, option)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._manager)
            await self._open_grpc(stack)
            await self._open_http(stack)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stopped.set()
        if self._draining is not None:
            self._draining.cancel()
        await self._stack.aclose()

    def drain(self, limit_s: float | None = None) -> int:
        """Takes no new sessions and episodes, and stops once those under way are over.

        They may take as long as `limit_s` says, else as the server's `drain_timeout_s`. Asked
        again, a `limit_s` counts from then on. Returns the number of live sessions.
        """
        if self._stopped.is_set() or (limit_s is None and self._draining is not None):
            return self._manager.drain()
        if self._draining is not None:
            self._draining.cancel()
        limit_s = self._drain_timeout_s if limit_s is None else limit_s
        count = self._manager.drain(limit_s)
        log_event(logger, logging.INFO, "draining", sessions=count, limit_s=limit_s)
        self._draining = asyncio.create_task(self._stop_when_drained(limit_s))
        return count

    def stop(self) -> None:
        """Has `wait_stopped` return, so that whoever waits leaves the block."""
        self._stopped.set()

    async def wait_stopped(self) -> None:
        """Waits for `stop`."""
        await self._stopped.wait()

    async def _open_grpc(self, stack: AsyncExitStack) -> None:
        listened = []
        if self._grpc_port is not None:
            listened.append(addresses.join(self._host, self._grpc_port))
        if self._unix is not None:
            addresses.check_socket(self._unix, "--unix")
            listened.append(f"unix:{self._unix}")
        if not listened:
            return
        from openenv_grpc.server import GrpcServer

        certificate = self._protection.certificate
        server = GrpcServer(
            self._manager,
            addresses=listened,
            doors=self._doors,
            on_drain=self.drain,
            access=self._access,
            credentials=None if certificate is None else certificate.for_grpc(),
            **self._door_options,
        )
        await stack.enter_async_context(server)
        if self._unix is not None:
            addresses.keep_socket(self._unix, stack)
        if self._grpc_port is not None:
            self.grpc_address = addresses.join(self._host, server.ports[0])

    async def _open_http(self, stack: AsyncExitStack) -> None:
        if self._http_port is None and self._http_unix is None:
            return
        if self._http_unix is not None:
            addresses.check_socket(self._http_unix, "--http-unix")
        from openenv_bridge import Bridge  # here for the same reason

        protection, certificate = self._protection, self._protection.certificate
        bridge = Bridge(
            self._manager,
            address=None if self._http_port is None else self._host,
            port=self._http_port or 0,
            unix_path=self.http_unix_path,
            grpc_address=self.grpc_address,
            access=self._access,
            allowed_hosts=protection.allowed_hosts,
            allowed_origins=protection.allowed_origins,
            ssl_context=None if certificate is None else certificate.context,
            max_json_bytes=self._json_limit["max_json_bytes"],
            **self._door_options,
        )
        await stack.enter_async_context(bridge)
        if self._http_unix is not None:
            addresses.keep_socket(self._http_unix, stack)
        if self._http_port is not None:
            self.http_address = addresses.join(self._host, bridge.port)

    def _doors(self, environment: str) -> list[tuple[str, str]]:
        """Lists where an environment is reached, by protocol."""
        doors = []
        if self.grpc_address is not None:
            doors.append(("grpc", addresses.reachable(self.grpc_address)))
        if self._unix is not None:
            # Whole: who asks may be in another folder.
            doors.append(("grpc", f"unix:{self._unix.absolute()}"))
        if self._http_unix is not None:
            doors.append(("http", f"http+unix:{self._http_unix.absolute()}"))
        base = self._http_url()
        if base:
            doors += [
                ("http", f"{base}/{environment}"),
                ("ws", f"ws{base.removeprefix('http')}/{environment}/ws"),
                ("mcp", f"{base}/{environment}/mcp"),
            ]
        return doors

    def _http_url(self) -> str:
        """Tells where HTTP is reached; nowhere if there is no such door."""
        if self.http_address is None:
            return ""
        if self._protection.public_url:
            return self._protection.public_url
        scheme = "http" if self._protection.certificate is None else "https"
        return f"{scheme}://{addresses.reachable(self.http_address)}"

    def _mcp_url(self, environment: str) -> str:
        """Tells where the tools of an environment are; nowhere if there is no such door."""
        base = self._http_url()
        if not base:
            return ""
        is_default = environment == next(iter(self._manager.environments))
        return f"{base}/mcp" if is_default else f"{base}/{environment}/mcp"

    async def _stop_when_drained(self, limit_s: float) -> None:
        try:
            async with asyncio.timeout(limit_s):
                await self._manager.until_drained()
        except TimeoutError:
            left = sum(session.under_way for session in self._manager.sessions())
            log_event(logger, logging.WARNING, "drain cut short", sessions=left, limit_s=limit_s)
        self.stop()


def serve(
    *targets: Target,
    on_ready: Callable[[Server], None] | None = None,
    **options: Unpack[ServerOptions],
) -> None:
    """Serves environments until SIGTERM, which drains first, or SIGINT.

    A second signal does not wait for episodes, nor the one after it for environments to close.
    Takes what `Server` takes. `on_ready` is called once every door listens.

    Raises:
        ConfigurationError: an environment, an option or a port is not to be had.
    """
    run_server(lambda: Server(*targets, **options), on_ready)


def run_server(make: Callable[[], Server], on_ready: Callable[[Server], None] | None) -> None:
    """Runs a server that `make` returns, as `serve` does. Raises what making it does."""
    with collection_put_off():
        from openenv_grpc.engine.blocks import keep_blocks  # here, as all that only servers need

        keep_blocks()
        runner = asyncio.Runner(loop_factory=_fast_loop_factory())
    try:
        runner.run(_serve_until_signal(make, on_ready))
    finally:
        # Closing a runner waits for every task, even of an environment that ignores cancellation.
        if runner.run(all_ended()):
            runner.close()


async def _serve_until_signal(
    make: Callable[[], Server], on_ready: Callable[[Server], None] | None
) -> None:
    async with AsyncExitStack() as stack:
        with collection_put_off():
            server = make()
            # Ctrl-C while it was made ends this here, with no door half open.
            await asyncio.sleep(0)
            stack.enter_context(stopping_on_signals(drain=server.drain, stop=server.stop))
            await stack.enter_async_context(server)
            if on_ready is not None:
                on_ready(server)
        await server.wait_stopped()


def _fast_loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop  # not there on Windows
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
