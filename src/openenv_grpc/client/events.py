"""What a client is told of its session beside the answers to its calls."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from openenv_grpc.errors import OpenEnvError
from openenv_grpc.tools import ToolLog, ToolProgress
from openenv_grpc.types import JsonValue

logger = logging.getLogger(__name__)

PROGRESS = "progress"
EVENTS = "events"
"""Features of servers that tell them."""

MAX_KEPT = 1_000
"""Events that are kept until somebody asks for them; the oldest are dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A call of the session is under way."""

    call: str
    """Which: `open`, `reset`, `step`, `state`, `evaluate`, `close`, or `the tool NAME`."""
    elapsed_s: float
    """Since it arrived at the server."""
    message: str = ""
    """What the environment says of it."""
    report: ToolProgress | ToolLog | None = None
    """What its code told at this moment, by `report_progress` or `report_log`; `None` for what is
    told of whatever takes long."""
    queue_position: int = 0
    """Place among those that wait for a slot, counting from 1; 0 if it does not wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCalled:
    """An agent called a tool of the session, by MCP or `ToolService`."""

    tool_name: str
    arguments: dict[str, JsonValue] = field(default_factory=dict)
    failed: bool = False
    """Whether the tool said that it failed, or `error` is set."""
    content: list[dict[str, JsonValue]] = field(default_factory=list)
    """What the caller was answered, as MCP content blocks."""
    data: JsonValue = None
    """The same as a value; `None` if the tool gave none."""
    error: OpenEnvError | None = None
    """What the call ended with in place of an answer."""
    reward: float | None = None
    """What the call earned, which agents are not told; `None` where there is no verdict."""
    rewards: dict[str, float] = field(default_factory=dict)
    """Parts of the reward by name."""
    terminated: bool = False
    """Whether the call ended the episode by its rules."""
    truncated: bool = False
    """Whether the call had the episode cut short."""
    cut: bool = False
    """Whether arguments and answer are missing, being larger than `max_message_size_mb`."""
    time: float = 0.0
    """When, in Unix seconds by the server's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLost:
    """The session is gone: it idled too long, its environment crashed, its server stopped."""

    error: OpenEnvError


@dataclass(frozen=True, slots=True, kw_only=True)
class Draining:
    """The server takes no new sessions and episodes, and is about to stop."""

    remaining_s: float | None = None
    """Time that episodes under way have; `None` if the server does not say."""


Event = ToolCalled | SessionLost | Draining
"""What `EnvClient.events` gives."""


class EventLog:
    """Events of one client, until they are asked for."""

    def __init__(self) -> None:
        self._kept: deque[Event] = deque()
        self._closed = False
        self._changed = asyncio.Event()

    def put(self, event: Event) -> None:
        """Adds one."""
        if len(self._kept) >= MAX_KEPT:
            self._kept.popleft()
            logger.warning("event dropped: nobody reads events() kept=%d", MAX_KEPT)
        self._kept.append(event)
        self._changed.set()

    def close(self) -> None:
        """Ends the iteration, after what is kept."""
        self._closed = True
        self._changed.set()

    async def __aiter__(self) -> AsyncIterator[Event]:
        while True:
            while self._kept:
                yield self._kept.popleft()
            if self._closed:
                return
            self._changed.clear()
            await self._changed.wait()


@dataclass(frozen=True, slots=True)
class Audience:
    """Who wants to know what is not asked."""

    on_progress: Callable[[Progress], None] | None = None
    events: EventLog | None = None

    def progress(self, progress: Progress) -> None:
        """Tells that a call is under way."""
        if self.on_progress is None:
            return
        try:
            self.on_progress(progress)
        except Exception:  # the user's own code may raise anything
            logger.exception("on_progress failed")

    def event(self, event: Event) -> None:
        """Tells an event."""
        if self.events is not None:
            self.events.put(event)
