"""Every session of one server: their number, their names, their end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from types import TracebackType
from typing import Any

from openenv_grpc import tracing
from openenv_grpc.busy_polling import BusyPolling
from openenv_grpc.definition import EnvironmentDefinition
from openenv_grpc.engine import capacity, draining, verdicts
from openenv_grpc.engine.attachment import UNHELD_IDLE_TIMEOUT_S, HeldSessions, all_closed
from openenv_grpc.engine.attention import Attention
from openenv_grpc.engine.clock import Clock
from openenv_grpc.engine.description import Descriptions
from openenv_grpc.engine.health import Health
from openenv_grpc.engine.housing import House, Housing
from openenv_grpc.engine.idle import IdleWatch
from openenv_grpc.engine.open_rate import OpenRate
from openenv_grpc.engine.processes import Processes
from openenv_grpc.engine.queue import Holder, SlotQueue
from openenv_grpc.engine.registry import (
    EngineSettings,
    RegisteredEnvironment,
    register_all,
)
from openenv_grpc.engine.relay import Relay
from openenv_grpc.engine.resuming import Windows
from openenv_grpc.engine.session import OnLost, Session
from openenv_grpc.engine.snapshots import Snapshots
from openenv_grpc.engine.threads import SharedThread, Threads
from openenv_grpc.engine.traced import OperationSpans
from openenv_grpc.engine.usage import measure
from openenv_grpc.engine.worker import Worker
from openenv_grpc.environment_spec import EnvironmentSpec
from openenv_grpc.errors import (
    DrainingError,
    EnvironmentNotFoundError,
    OpenEnvError,
)
from openenv_grpc.metrics import Metrics, Usage
from openenv_grpc.operations import Deliver, Operation
from openenv_grpc.sessions import Attachment, SessionInfo, SessionPort, Wait
from openenv_grpc.types import EnvironmentMetadata


class SessionManager:
    """Sessions in this process. Implements `SessionHost`.

    It is entered on the event loop that serves, and used on that loop alone. Leaving it ends every
    session.

    Raises:
        TypeError: a factory builds no environment.
        ConfigurationError: definitions or settings make no sense.
    """

    def __init__(
        self,
        definitions: Sequence[EnvironmentDefinition],
        settings: EngineSettings | None = None,
        *,
        clock: Clock | None = None,
    ) -> None:
        self.settings = settings or EngineSettings()
        self.crew = self.settings.crew
        if self.settings.otel:
            tracing.configure()
        self._registered = register_all(definitions, self.settings)
        self._specs = {name: each.spec for name, each in self._registered.items()}
        self._processes = Processes(self._registered, self.settings)
        self.metrics = Metrics(self._registered, self.settings.limits())
        """What is counted here. Doors add what goes through them."""
        self.snapshots = Snapshots(self.settings, self.metrics)
        """What sessions have saved."""
        self._given_clock = clock
        self._sessions: dict[str, Session] = {}
        self._transient: set[Session] = set()
        self._turns: dict[str, asyncio.Lock] = {}  # requests to what is used one at a time
        self._descriptions = Descriptions()
        self._health = Health(max_stuck=self.settings.max_stuck)
        self._drain_due: float | None = None

    async def __aenter__(self) -> SessionManager:
        loop = asyncio.get_running_loop()
        self.clock: Clock = self._given_clock or loop
        self.attention = Attention(BusyPolling(self.settings.busy_poll_s))
        self._tracing = tracing.configured()
        self._threads = Threads(Relay(loop), on_stuck=self._health.note_stuck)
        self._open_rate = OpenRate(self.settings.opens_per_minute, self.clock, self.metrics)
        self._idle = IdleWatch(self.clock, self._sessions.values)
        self._processes.start()
        self.windows = Windows(self.clock, self.settings)
        self._slots = SlotQueue(self.clock, self.settings, self.windows, self._sessions.values)
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._health.drain()
        self._idle.stop()
        self._slots.refuse_all(capacity.draining())
        self._slots.stop()
        self.windows.stop()
        await self._descriptions.stop()
        left = [*self._sessions.values(), *self._transient]
        for session in left:
            session.end(DrainingError("the server is stopping"), cause="server stopped")
        await all_closed(left)
        await self._processes.stop()
        self._threads.stop()

    # Environments

    @property
    def environments(self) -> Mapping[str, EnvironmentSpec]:
        """What can be opened, by name; the default comes first."""
        return self._specs

    def spec(self, environment: str = "") -> EnvironmentSpec:
        """Returns one of them; the default for an empty name. Raises `EnvironmentNotFoundError`."""
        return self._find_environment(environment).spec

    def metadata(self, environment: str = "") -> asyncio.Future[EnvironmentMetadata]:
        """Tells an environment's metadata; builds an instance the first time, if it must."""
        registered = self._find_environment(environment)
        return self._descriptions.get(registered, self.transient(environment))

    def _find_environment(self, name: str) -> RegisteredEnvironment:
        if not name:
            return next(iter(self._registered.values()))
        registered = self._registered.get(name)
        if registered is None:
            offered = ", ".join(self._registered)
            raise EnvironmentNotFoundError(
                f"there is no environment {name!r} here; this server has: {offered}"
            )
        return registered

    # Sessions

    @asynccontextmanager
    async def attach(self, *, peer: str) -> AsyncIterator[Attachment]:
        """Holds sessions for a connection. Leaving it ends them and waits for their close.

        Those that have a window wait to be attached to on another.
        """
        held = HeldSessions(self, peer=peer)
        try:
            yield held
        finally:
            await held.leave()

    @asynccontextmanager
    async def transient(self, environment: str = "") -> AsyncIterator[SessionPort]:
        """Builds an environment for one request and closes it. Takes no slot."""
        registered = self._find_environment(environment)
        async with self._turn(registered.spec):
            session = Session(registered, self, peer="", transient=True)
            self._transient.add(session)
            try:
                yield session
            finally:
                session.end(verdicts.closed(), cause="its request ended")
                await all_closed([session])

    def lease(
        self,
        environment: str,
        *,
        peer: str,
        idle_timeout_s: float | None = None,
        operation: Operation | None = None,
        deliver: Deliver | None = None,
        wait: Wait | None = None,
    ) -> SessionPort:
        """Opens a session that nobody's connection holds: it ends by `Kind.CLOSE` or by idling.

        `operation`, `deliver` and `wait` are as in `Attachment.open`.

        Raises:
            EnvironmentNotFoundError, SessionCapacityError, DrainingError, OutOfOrderError.
        """
        if operation is not None:
            verdicts.check_first(operation)
        limit_s = UNHELD_IDLE_TIMEOUT_S if idle_timeout_s is None else idle_timeout_s
        session = self.open_session(environment, peer=peer, idle_timeout_s=limit_s, wait=wait)
        if operation is not None and deliver is not None:
            session.open(operation, deliver)
        return session

    def open_session(
        self,
        environment: str,
        *,
        peer: str,
        shared_thread: SharedThread | None = None,
        idle_timeout_s: float | None = None,
        on_lost: OnLost | None = None,
        snapshot_id: str = "",
        wait: Wait | None = None,
        holder: Holder | None = None,
    ) -> Session:
        """Makes a session in a slot of its own, or with a `wait` one that waits for its slot.

        Raises what `Attachment.open` raises.
        """
        snapshot = self.snapshots.find(snapshot_id, environment) if snapshot_id else None
        registered = self._find_environment(
            environment if snapshot is None else snapshot.environment
        )
        counted = self.metrics.environments[registered.spec.name]
        session = Session(
            registered,
            self,
            peer=peer,
            shared_thread=shared_thread,
            on_lost=on_lost,
            queued=True,
            snapshot=snapshot,
        )
        try:
            if self._health.draining:
                raise capacity.draining()
            self._open_rate.check(peer)
            if wait is not None:
                self._slots.enter(session, wait, holder)
            else:
                self._slots.take(registered.spec)
                session.admit()
        except OpenEnvError as error:
            counted.errors[error.reason] += 1
            raise
        self._sessions[session.id] = session
        limit_s = registered.session_timeout_s if idle_timeout_s is None else idle_timeout_s
        if limit_s is not None:
            session.watch_idle(limit_s)
        return session

    def keep_waiting(self, session: Session, wait: Wait, holder: Holder) -> None:
        """Has a session that waits keep its place although another connection asks for it now."""
        self._slots.move(session, wait, holder)

    def find(self, session_id: str) -> SessionPort:
        """Returns a live session. Raises `SessionNotFoundError`."""
        return self._find_session(session_id)

    def sessions(self) -> list[SessionInfo]:
        """Lists the live sessions, oldest first."""
        return [session.info() for session in self._sessions.values()]

    def end_session(self, session_id: str, error: OpenEnvError) -> None:
        """Ends a session at once; whoever holds it is told `error`.

        Raises:
            SessionNotFoundError: it is not there.
        """
        self._find_session(session_id).end(error, cause="ended by an operator")

    def drain(self, limit_s: float | None = None) -> int:
        """Takes no new sessions and episodes from now on. Returns the number of live sessions.

        `limit_s` is what those under way are told that they have.
        """
        if limit_s is not None:
            self._drain_due = self.clock.time() + limit_s
        self._health.drain()
        self._slots.refuse_all(capacity.draining())
        return len(self._sessions)

    @property
    def drain_remaining_s(self) -> float | None:
        """How long those under way have still; `None` if that was not said."""
        return None if self._drain_due is None else max(0.0, self._drain_due - self.clock.time())

    @property
    def draining(self) -> bool:
        """Whether `drain` was called."""
        return self._health.draining

    async def until_draining(self) -> None:
        """Waits until `drain` is called, or the host ends."""
        await self._health.until_draining()

    async def until_drained(self) -> None:
        """Waits until no session is amid an episode and nothing is asked any more.

        Sessions that are merely open are not waited for.
        """
        busy = draining.is_busy
        while self._transient or busy(self._sessions.values(), self.clock.time()):  # noqa: ASYNC110
            await asyncio.sleep(draining.INTERVAL_S)  # an end may come from a clock, too

    @property
    def serving(self) -> bool:
        """Whether new work is welcome: it does not drain, and few of its threads hang."""
        return self._health.serving

    async def health_changed(self) -> None:
        """Waits until `serving` or `draining` may have changed."""
        await self._health.changed()

    def usage(self) -> Usage:
        """Measures what is in use."""
        return measure(self._sessions.values(), self.windows, self._processes)

    @property
    def stuck_threads(self) -> int:
        """Calls that run on although their session was given up."""
        return self._threads.stuck

    def _find_session(self, session_id: str) -> Session:
        session = self._sessions.get(session_id)
        if session is None or session.is_over:
            raise verdicts.no_session(session_id, self.settings.crew)
        return session

    def _turn(self, spec: EnvironmentSpec) -> AbstractAsyncContextManager[Any]:
        if spec.concurrent_sessions:
            return nullcontext()
        return self._turns.setdefault(spec.name, asyncio.Lock())

    # What sessions need (`session.Home`)

    def house(self, session: Session) -> House:
        """Returns where a session's environment will live."""
        return self._processes.house(session) or Housing(
            session.registered,
            session,
            session_id=session.id,
            redact_errors=self.settings.redact_errors,
            tracing=self._tracing,
        )

    def spans_of(self, session: Session) -> OperationSpans | None:
        """Returns what makes spans of a session's operations; `None` if nothing is traced."""
        if self._tracing is None:
            return None
        environment = session.spec.name
        return OperationSpans(self._tracing, session_id=session.id, environment=environment)

    def take_worker(self, session: Session) -> Worker:
        """Returns where a session's blocking calls run."""
        name = f"openenv {session.spec.name} {session.id[:8]}"
        return self._threads.take(session.registered, name=name, shared=session.shared_thread)

    def free_worker(self, session: Session, worker: Worker) -> None:
        """Takes a worker back."""
        self._threads.free(worker, shared=session.shared_thread)

    def watch_idle(self, session: Session) -> None:
        """Ends a session once it idles for too long."""
        self._idle.watch(session)

    def gone(self, session: Session, *, stuck_on: Worker | None) -> None:
        """Notes that a session has ended, though a call of it may still run on a worker."""
        self._sessions.pop(session.id, None)
        self._transient.discard(session)
        spec = session.spec
        if session.queued:
            self.windows.revoke(session)
            self._slots.leave(session)
            return
        self.windows.ended(session)

        def free_slot() -> None:
            if not session.transient:
                self._slots.free(spec)

        # Where instances must not live side by side, the slot stays taken while a call runs on.
        waits = stuck_on is not None and not spec.concurrent_sessions
        if stuck_on is not None:
            self._threads.give_up(
                stuck_on, free_slot if waits else _nothing, shared=session.shared_thread
            )
        if not waits:
            free_slot()


def _nothing() -> None:
    return None
