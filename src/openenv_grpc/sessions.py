"""What a session offers, wherever it runs: the port between doors and the engine.

A *door* (a gRPC stream, a WebSocket, an HTTP route) holds an `Attachment`, opens sessions through
it, and submits operations to them. It brings a `Codec`, which the session calls on its own thread:
the engine knows neither JSON nor protos, and doors know neither threads nor order.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from openenv_grpc.crew import Crew
from openenv_grpc.environment_spec import EnvironmentSpec
from openenv_grpc.errors import OpenEnvError
from openenv_grpc.metrics import Metrics, Usage
from openenv_grpc.operations import Deliver, Operation, Reply, ToolCall
from openenv_grpc.tools import Change, ToolAnswer
from openenv_grpc.types import EnvironmentMetadata


class SessionState(enum.Enum):
    """What a session is doing."""

    QUEUED = "queued"
    OPENING = "opening"
    READY = "ready"
    RUNNING = "running"
    DETACHED = "detached"
    CLOSING = "closing"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInfo:
    """A live session, for an operator."""

    session_id: str
    environment: str
    environment_type: str
    state: SessionState
    age_s: float
    idle_s: float | None
    """`None` while an operation runs."""
    created_at: float
    """Unix seconds."""
    last_activity_at: float
    step_count: int
    peer: str
    """Who is attached; empty if nobody is."""
    under_way: bool
    """Whether anything is asked of it, or it is amid an episode: what a drain waits for."""


class CancelEffect(enum.IntEnum):
    """What became of an operation that was cancelled. Numbers are the proto's."""

    DROPPED = 1
    STOPPED = 2
    RUNS_ON = 3
    NOT_FOUND = 4


@dataclass(frozen=True, slots=True)
class UnderWay:
    """An operation that has no reply yet."""

    request_id: int
    elapsed_s: float
    """Since it arrived."""


class EventCodec(Protocol):
    """Writes what is told of a session without being asked. Keeps no state of its own."""

    def write_tool_called(
        self, call: ToolCall, answer: ToolAnswer | None, error: OpenEnvError | None
    ) -> bytes:
        """Writes that a tool was called, with its answer or what it ended with in place of one."""
        ...


@dataclass(frozen=True, slots=True)
class Watch:
    """That a connection is told of the tool calls of a session, whoever makes them."""

    codec: EventCodec
    tell: Callable[[bytes], None]
    """Gets what the codec wrote, on the event loop, after the caller has got the answer."""


class Follower(Protocol):
    """Follows what is done in a session, whoever asks for it. Called on the event loop."""

    def changed(self, change: Change, operation: Operation) -> None:
        """Takes what the environment tells of itself while an operation is done."""
        ...

    def acted(self, operation: Operation) -> None:
        """Notes that a reset, a step or a tool call has been done, after its answer."""
        ...

    def ended(self) -> None:
        """Notes that the session has ended, the last that is told."""
        ...


class SessionPort(Protocol):
    """One instance of an environment."""

    @property
    def id(self) -> str:
        """Names it everywhere. A UUID."""
        ...

    @property
    def spec(self) -> EnvironmentSpec:
        """What it is an instance of."""
        ...

    @property
    def last_request_id(self) -> int:
        """The highest number used in its sequence."""
        ...

    def submit(self, operation: Operation, deliver: Deliver) -> None:
        """Has an operation done, after those before it. Never blocks, never raises.

        `deliver` is called exactly once, from a later turn of the event loop or from within.
        """
        ...

    def cancel(self, request_id: int) -> CancelEffect:
        """Cancels a numbered operation that has no reply yet."""
        ...

    def cancel_operation(self, operation: Operation) -> CancelEffect:
        """Cancels an operation that has no reply yet, numbered or not."""
        ...

    def acknowledge(self, request_id: int) -> None:
        """Forgets the replies up to a number."""
        ...

    def under_way(self) -> list[UnderWay]:
        """Lists its numbered operations, oldest first; none while it waits for a slot."""
        ...

    def follow(self, follower: Follower) -> Callable[[], None]:
        """Tells a follower of what is asked from now on; returns what ends that."""
        ...

    def info(self) -> SessionInfo:
        """Describes it as it is now."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """How a session outlives the loss of its connection."""

    key: str = field(repr=False)
    """A secret of the client's making, by which the session is known."""
    window_s: float
    """How long the session waits to be attached again. The host may shorten it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePlace:
    """Where an opening stands that waits for a slot."""

    position: int
    """Counting from 1 in order of arrival; 0 once it has its slot."""
    waited_s: float
    limit_s: float
    """How long it may wait in all."""
    session_limit: int
    """How many sessions of its environment may be open at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """That an opening may wait for a slot, and how."""

    timeout_s: float | None = None
    """At most as long; `None` leaves it to the host, which may shorten it in any case."""
    group: str = ""
    """Openings of one connection that get their slots together, or none of them."""
    group_size: int = 1
    tell: Callable[[QueuePlace], None] | None = None
    """Called if it has to wait: at once, every few seconds, and when it has its slot."""


class Attachment(Protocol):
    """What one connection holds: any number of sessions, which end with it.

    Those that were opened with `resume` wait to be attached to elsewhere.
    """

    def open(
        self,
        environment: str,
        *,
        operation: Operation | None = None,
        deliver: Deliver | None = None,
        on_lost: Callable[[SessionPort, OpenEnvError], None] | None = None,
        resume: Resume | None = None,
        wait: Wait | None = None,
        snapshot_id: str = "",
        watch: Watch | None = None,
        peer: str | None = None,
    ) -> SessionPort:
        """Opens a session; its constructor runs later, on the session's thread.

        `operation` is the `Kind.OPEN` that asked for it, answered by `deliver` once the
        environment stands or has failed. Other operations may be submitted at once and wait.
        `peer` is who asks, if not the attachment's own.
        `on_lost` is called if the session ends and no operation says so: idle, closed by an
        operator, server stopped.

        With a `resume` whose key is known the session of that key is attached, as by `attach`, and
        `operation` is a repeat of the one that opened it.

        Where no slot is free, a session with a `wait` waits for one before anything is done in it,
        and ends if it gets none; one without is refused. With a `snapshot_id` it goes on from
        there, and an empty `environment` is the snapshot's.

        Raises:
            EnvironmentNotFoundError, SessionCapacityError, DrainingError, SnapshotNotFoundError.
            InvalidRequestError: the group of `wait` makes no sense, or the snapshot is of another
                environment.
        """
        ...

    def attach(
        self,
        session_id: str,
        resume_key: str,
        *,
        on_lost: Callable[[SessionPort, OpenEnvError], None] | None = None,
        watch: Watch | None = None,
    ) -> SessionPort:
        """Takes up a session that was opened with `resume`, whoever else holds it.

        That holder is fenced: its `on_lost` gets a `SessionTakenOverError`, what it submits from
        then on is refused with the same, and no reply reaches it any more. Replies of operations
        under way go to who submits them again. A session that has ended answers repeats for as
        long as its record is kept.

        Raises:
            SessionNotFoundError: there is no such session, or that is not its key.
        """
        ...

    def release(self, session: SessionPort) -> None:
        """Lets a session go: it stays open without this attachment, which closes it no more."""
        ...


class SessionHost(Protocol):
    """Where sessions live."""

    @property
    def environments(self) -> Mapping[str, EnvironmentSpec]:
        """What can be opened, by name; the default comes first."""
        ...

    def spec(self, environment: str = "") -> EnvironmentSpec:
        """Returns one of them; the default for an empty name. Raises `EnvironmentNotFoundError`."""
        ...

    def attach(self, *, peer: str) -> AbstractAsyncContextManager[Attachment]:
        """Holds sessions for a connection.

        Leaving the block ends them and waits for their close, up to the host's limit; those with a
        resume window live on until it has passed.
        """
        ...

    def transient(self, environment: str = "") -> AbstractAsyncContextManager[SessionPort]:
        """Builds an environment for one request and closes it.

        It takes no slot. Those that do not support concurrent sessions are used one at a time.
        """
        ...

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
            EnvironmentNotFoundError, SessionCapacityError, DrainingError.
        """
        ...

    def find(self, session_id: str) -> SessionPort:
        """Returns a live session. Raises `SessionNotFoundError`."""
        ...

    def sessions(self) -> list[SessionInfo]:
        """Lists the live sessions, oldest first."""
        ...

    def end_session(self, session_id: str, error: OpenEnvError) -> None:
        """Ends a session at once; whoever holds it is told. Raises `SessionNotFoundError`."""
        ...

    def metadata(self, environment: str = "") -> asyncio.Future[EnvironmentMetadata]:
        """Tells an environment's metadata; builds an instance the first time, if it must."""
        ...

    @property
    def metrics(self) -> Metrics:
        """What is counted here. Doors add what goes through them."""
        ...

    @property
    def stuck_threads(self) -> int:
        """Calls that run on although their session was given up."""
        ...

    def drain(self, limit_s: float | None = None) -> int:
        """Takes no new sessions and episodes from now on. Returns the number of live sessions.

        `limit_s` is how long those under way have, as far as that is known.
        """
        ...

    @property
    def drain_remaining_s(self) -> float | None:
        """How long those under way have still; `None` if that was not said."""
        ...

    @property
    def crew(self) -> Crew | None:
        """The server's worker processes, of which this is one, if it has several."""
        ...

    @property
    def draining(self) -> bool:
        """Whether `drain` was called."""
        ...

    @property
    def serving(self) -> bool:
        """Whether new work is welcome: it does not drain, and few of its threads hang."""
        ...

    async def health_changed(self) -> None:
        """Waits until `serving` or `draining` may have changed."""
        ...

    def usage(self) -> Usage:
        """Measures what is in use."""
        ...

    async def until_draining(self) -> None:
        """Waits until `drain` is called, or the host ends."""
        ...


async def ask(session: SessionPort, operation: Operation) -> Reply:
    """Submits an operation and waits for its reply. Cancelling the wait cancels the operation."""
    reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

    def deliver(answer: Reply) -> None:
        if not reply.done():
            reply.set_result(answer)

    session.submit(operation, deliver)
    try:
        return await reply
    except asyncio.CancelledError:
        session.cancel_operation(operation)
        raise
