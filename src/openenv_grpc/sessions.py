"""What a session offers, wherever it runs: the port between doors and the engine.

A *door* (a gRPC stream, a WebSocket, an HTTP route) holds an `Attachment`, opens sessions through
it, and submits operations to them. It brings a `Codec`, which the session calls on its own thread:
the engine knows neither JSON nor protos, and doors know neither threads nor order.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from pydantic import BaseModel, TypeAdapter

from openenv_grpc.errors import OpenEnvError
from openenv_grpc.serialization import ActionReader, json_schema
from openenv_grpc.tools import ToolAnswer, ToolInfo
from openenv_grpc.types import Budgets, EnvironmentMetadata, JsonValue, ServerMode


class Kind(enum.Enum):
    """What an operation does."""

    OPEN = "open"
    RESET = "reset"
    STEP = "step"
    STATE = "state"
    EVALUATE = "evaluate"
    CLOSE = "close"
    LIST_TOOLS = "list_tools"
    CALL_TOOL = "call_tool"
    TASKS = "tasks"
    METADATA = "metadata"


TRAINER_KINDS = frozenset({Kind.RESET, Kind.STEP, Kind.STATE, Kind.EVALUATE})
"""What production mode refuses."""


@dataclass(slots=True, kw_only=True, eq=False)
class Operation:
    """One thing to be done in a session. Its door makes it; `codec` reads and writes it."""

    kind: Kind
    codec: Codec
    payload: Any = None
    """What the door received, for the codec to read."""
    request_id: int | None = None
    """Number in the session's sequence: from 1 without gaps; 0 has the session number it, and sets
    it here. `None` stands outside of the sequence, as an agent's tool calls do."""
    digest: bytes = b""
    """Tells whether a repeat of a numbered operation has the same content."""
    timeout_s: float | None = None
    """Longest time from submission to the end; `None` for ever."""
    context: Any = None
    """The door's own, for writing the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetArguments:
    """What a codec reads for `Kind.RESET`."""

    keywords: dict[str, JsonValue]
    """What was sent, `seed` and `episode_id` included, if they were."""
    strict: bool = False
    """Whether unknown keywords are refused, or dropped as the reference does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepArguments:
    """What a codec reads for `Kind.STEP`."""

    action: Any
    keywords: dict[str, JsonValue] = field(default_factory=dict)
    strict: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """What a codec reads for `Kind.CALL_TOOL`."""

    name: str
    arguments: dict[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskQuery:
    """What a codec reads for `Kind.TASKS`."""

    method: str
    """`list_splits`, `list_tasks`, `num_tasks`, `get_task` or `get_task_range`."""
    arguments: tuple[Any, ...] = ()


@dataclass(slots=True, kw_only=True)
class Opened:
    """What came of `Kind.OPEN`."""

    session_id: str
    environment: str


@dataclass(slots=True, kw_only=True)
class Observed:
    """What came of `Kind.RESET` or `Kind.STEP`."""

    observation: Any
    """The environment's own object: a pydantic model in all likelihood."""
    reward: bool | int | float | None = None
    done: bool = False
    truncated: bool = False
    rewards: Mapping[str, float] = field(default_factory=dict)
    """Parts of the reward by name."""
    episode_id: str | None = None


@dataclass(slots=True, kw_only=True)
class StateRead:
    """What came of `Kind.STATE`."""

    state: Any
    """The environment's own object, or a dictionary."""
    episode_id: str | None = None
    step_count: int = 0


@dataclass(slots=True, kw_only=True)
class Evaluated:
    """What came of `Kind.EVALUATE`."""

    reward: bool | int | float | None = None
    rewards: Mapping[str, float] = field(default_factory=dict)
    done: bool = False
    truncated: bool = False


@dataclass(slots=True, kw_only=True)
class Closed:
    """What came of `Kind.CLOSE`."""

    step_count: int


@dataclass(slots=True, kw_only=True)
class ToolsListed:
    """What came of `Kind.LIST_TOOLS`."""

    tools: Sequence[ToolInfo]
    by_step: bool = False
    """Whether the list came from a `step`, in an "MCP-style" environment."""


Result = (
    Opened
    | Observed
    | StateRead
    | Evaluated
    | Closed
    | ToolsListed
    | ToolAnswer
    | EnvironmentMetadata
    | JsonValue
)
"""What came of an operation that went well. `Kind.TASKS` gives a plain value."""


class Codec(Protocol):
    """Translates between one door's payloads and an environment's values.

    Sessions call it on the thread that runs the environment (`write` on the event loop too, for
    errors found there), so it keeps no state of its own.
    """

    def read_reset(self, operation: Operation, spec: EnvironmentSpec) -> ResetArguments:
        """Reads the payload of a reset. Raises `InvalidRequestError`."""
        ...

    def read_step(self, operation: Operation, spec: EnvironmentSpec) -> StepArguments:
        """Reads the payload of a step. Raises `InvalidRequestError`, `InvalidActionError`."""
        ...

    def read_tool_call(self, operation: Operation, spec: EnvironmentSpec) -> ToolCall:
        """Reads the payload of a tool call. Raises `InvalidRequestError`."""
        ...

    def write(self, operation: Operation, result: Result, spec: EnvironmentSpec) -> bytes:
        """Writes the answer. Raises `UnserializableResultError`."""
        ...

    def write_error(
        self, operation: Operation, error: OpenEnvError, spec: EnvironmentSpec | None
    ) -> bytes:
        """Writes a failed operation's answer. Never raises."""
        ...


@dataclass(slots=True)
class Reply:
    """What a session delivers for an operation, exactly once, on the event loop."""

    operation: Operation
    content: bytes
    """What `operation.codec` wrote."""
    error: OpenEnvError | None = None
    """The same, for doors that need to know: set if the operation failed."""


Deliver = Callable[[Reply], None]


@dataclass(frozen=True, kw_only=True, eq=False)
class EnvironmentSpec:
    """What an environment is, as far as that can be told without building one."""

    name: str
    factory_name: str
    """Name of the class or function that builds it, for messages."""
    action_reader: ActionReader
    observation_type: type[BaseModel]
    reset_observation_type: type[BaseModel]
    state_type: type[BaseModel]
    mode: ServerMode
    concurrent_sessions: bool
    session_limit: int
    isolation: str
    """`thread`, `process`, `shared`, `inline`, or `async` for what runs on the server's loop."""
    requires_reset: bool = False
    has_tools: bool = False
    mcp_style: bool = False
    """Whether it has no tools of its own but takes tool actions in `step`."""
    has_tasks: bool = False
    budgets: Budgets = field(default_factory=Budgets)

    @cached_property
    def schemas(self) -> dict[str, JsonValue]:
        """JSON Schemas by `action`, `observation`, `state` and `reset_observation`."""
        return {
            "action": self.action_reader.schema(),
            "observation": json_schema(TypeAdapter(self.observation_type)),
            "state": json_schema(TypeAdapter(self.state_type)),
            "reset_observation": json_schema(TypeAdapter(self.reset_observation_type)),
        }


class SessionState(enum.Enum):
    """What a session is doing."""

    OPENING = "opening"
    READY = "ready"
    RUNNING = "running"
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


class CancelEffect(enum.IntEnum):
    """What became of an operation that was cancelled. Numbers are the proto's."""

    DROPPED = 1
    STOPPED = 2
    RUNS_ON = 3
    NOT_FOUND = 4


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

    def info(self) -> SessionInfo:
        """Describes it as it is now."""
        ...


class Attachment(Protocol):
    """What one connection holds: any number of sessions, which end with it."""

    def open(
        self,
        environment: str,
        *,
        operation: Operation | None = None,
        deliver: Deliver | None = None,
        on_lost: Callable[[SessionPort, OpenEnvError], None] | None = None,
    ) -> SessionPort:
        """Opens a session; its constructor runs later, on the session's thread.

        `operation` is the `Kind.OPEN` that asked for it, answered by `deliver` once the
        environment stands or has failed. Other operations may be submitted at once and wait.
        `on_lost` is called if the session ends and no operation says so: idle, closed by an
        operator, server stopped.

        Raises:
            EnvironmentNotFoundError, SessionCapacityError, DrainingError.
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

        Leaving the block ends them and waits for their close, up to the host's limit.
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
    ) -> SessionPort:
        """Opens a session that nobody's connection holds: it ends by `Kind.CLOSE` or by idling.

        `operation` and `deliver` are as in `Attachment.open`.

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

    def drain(self) -> int:
        """Takes no new sessions and episodes from now on. Returns the number of live sessions."""
        ...

    @property
    def draining(self) -> bool:
        """Whether `drain` was called."""
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
