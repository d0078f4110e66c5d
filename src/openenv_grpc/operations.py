"""What is asked of a session and what comes of it, and the codecs by which doors say so."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from openenv_grpc.crew import Crew
from openenv_grpc.environment_spec import EnvironmentSpec
from openenv_grpc.errors import InternalError, OpenEnvError
from openenv_grpc.tools import (
    Client,
    PromptAnswer,
    PromptInfo,
    ResourceList,
    ResourceRead,
    ToolAnswer,
    ToolInfo,
    ToolNotice,
)
from openenv_grpc.tools.changes import TellChange
from openenv_grpc.types import EnvironmentMetadata, JsonValue


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
    LIST_RESOURCES = "list_resources"
    READ_RESOURCE = "read_resource"
    LIST_PROMPTS = "list_prompts"
    GET_PROMPT = "get_prompt"
    TASKS = "tasks"
    METADATA = "metadata"
    SNAPSHOT = "snapshot"
    RESTORE = "restore"
    """The engine's own: part of opening a session by a snapshot. No door asks for it."""

    __hash__ = object.__hash__  # members are keys of what each step looks up; Enum's own is slow


TRAINER_KINDS = frozenset({Kind.RESET, Kind.STEP, Kind.STATE, Kind.EVALUATE, Kind.SNAPSHOT})
"""What production mode refuses."""


class Listener(Protocol):
    """Hears what an operation's tool tells while it runs. `hearing` has one for doors."""

    def tell(self, notice: ToolNotice) -> None:
        """Takes a notice, from any thread, and never blocks."""
        ...


@dataclass(eq=False)  # by position, and not more than is set, since there is one for each step
class Operation:
    """One thing to be done in a session. Its door makes it; `codec` reads and writes it."""

    kind: Kind
    codec: Codec
    payload: Any = None
    """What the door received, for the codec to read."""
    request_id: int | None = None
    """Number in the session's sequence: from 1 without gaps; 0 has the session number it, and sets
    it here. `None` stands outside of the sequence, as an agent's tool calls do."""
    digest: bytes | str = b""
    """Tells whether a repeat of a numbered operation has the same content."""
    timeout_s: float | None = None
    """Longest time from submission to the end; `None` for ever."""
    context: Any = None
    """The door's own, for writing the answer."""
    trace: str = field(default="", init=False)
    """The span that this is below, as its client says; from its arrival on, the server's."""
    listener: Listener | None = field(default=None, init=False)
    """Who hears of the tool while it runs; `None` for nobody, which costs nothing."""
    client: Client | None = field(default=None, init=False)
    """Whom the tool may ask, where there is a listener; `None` for nobody."""
    changes: TellChange | None = field(default=None, init=False)
    """Is told what changes meanwhile. The session sets it while somebody follows."""

    def tell(self, notice: ToolNotice) -> None:
        """Tells whoever listens now, from any thread."""
        listener = self.listener
        if listener is not None:
            listener.tell(notice)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetArguments:
    """What a codec reads for `Kind.RESET`."""

    keywords: dict[str, JsonValue]
    """What was sent, `seed` and `episode_id` included, if they were."""
    strict: bool = False
    """Whether unknown keywords are refused, or dropped as the reference does."""


@dataclass(slots=True)
class StepArguments:
    """What a codec reads for `Kind.STEP`."""

    action: Any
    keywords: dict[str, JsonValue] | None = None
    strict: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """What a codec reads for `Kind.CALL_TOOL`."""

    name: str
    arguments: dict[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceQuery:
    """The payload of `Kind.READ_RESOURCE`, which no codec reads."""

    uri: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptQuery:
    """The payload of `Kind.GET_PROMPT`, which no codec reads."""

    name: str
    arguments: dict[str, JsonValue] = field(default_factory=dict)
    """Text in all likelihood: what MCP sends is converted as the function's annotations say."""


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
    resume_window_s: float | None = None
    """How long the session outlives its connection; `None` for not at all."""
    crew: Crew | None = None
    """The worker processes of which one has the session; `None` where there is one process."""


@dataclass(slots=True)  # by position, since there is one for each step
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
class Saved:
    """What came of `Kind.SNAPSHOT`."""

    snapshot_id: str
    size_bytes: int


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


@dataclass(slots=True, kw_only=True)
class PromptsListed:
    """What came of `Kind.LIST_PROMPTS`."""

    prompts: Sequence[PromptInfo]


Result = (
    Opened
    | Observed
    | StateRead
    | Evaluated
    | Saved
    | Closed
    | ToolsListed
    | ToolAnswer
    | ResourceList
    | ResourceRead
    | PromptsListed
    | PromptAnswer
    | EnvironmentMetadata
    | JsonValue
)
"""What came of an operation that went well. `Kind.TASKS` gives a plain value.

`Kind.LIST_RESOURCES` gives a `ResourceList` (templates included), `Kind.READ_RESOURCE` a
`ResourceRead` or `ResourceNotFoundError`, `Kind.GET_PROMPT` a `PromptAnswer`, or
`InvalidArgumentsError` where there is no such prompt or its arguments do not fit.
"""


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


class WritingCodec:
    """What codecs share whose operations bring nothing to read: they write results alone.

    A failed operation is told by its reply's `error`, so nothing is written for one.
    """

    def read_reset(self, operation: Operation, spec: EnvironmentSpec) -> ResetArguments:
        """Refuses."""
        raise InternalError("this codec reads no resets")

    def read_step(self, operation: Operation, spec: EnvironmentSpec) -> StepArguments:
        """Refuses."""
        raise InternalError("this codec reads no steps")

    def read_tool_call(self, operation: Operation, spec: EnvironmentSpec) -> ToolCall:
        """Refuses."""
        raise InternalError("this codec reads no tool calls")

    def write_error(
        self, operation: Operation, error: OpenEnvError, spec: EnvironmentSpec | None
    ) -> bytes:
        """Writes nothing."""
        return b""


@dataclass(slots=True)
class Reply:
    """What a session delivers for an operation, exactly once, on the event loop."""

    operation: Operation
    content: bytes
    """What `operation.codec` wrote."""
    error: OpenEnvError | None = None
    """The same, for doors that need to know: set if the operation failed."""

    def written(self) -> bytes:
        """Returns what was written; raises the error of an operation that failed."""
        if self.error is not None:
            raise self.error
        return self.content


Deliver = Callable[[Reply], None]
