"""An environment that counts what is done to it, and gives each step its token back."""

from __future__ import annotations

import itertools
import threading
from typing import ClassVar

from openenv_grpc.environment import Environment
from openenv_grpc.mcp_environment import MCPEnvironment
from openenv_grpc.tools import tool
from openenv_grpc.types import Action, Observation, State


class Token(Action):
    """Makes a step tell from all others. One that is `wait` waits for the gate."""

    token: str = ""
    wait: bool = False


class Tally(Observation):
    """Which instance it was, and how much has been done to it."""

    instance: int = 0
    steps: int = 0
    resets: int = 0
    token: str = ""


class Gate:
    """Holds steps that wait."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.leave = threading.Event()
        self.limit_s = 20.0


class Counting(Environment[Token, Tally, State]):
    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True

    gate: ClassVar[Gate] = Gate()
    closed: ClassVar[list[tuple[int, int]]] = []
    """Instance and steps of those that were closed."""
    _numbers: ClassVar[itertools.count[int]] = itertools.count(1)

    def __init__(self) -> None:
        super().__init__()
        self.tally = Tally(instance=next(self._numbers))

    def reset(self, seed: int | None = None, episode_id: str | None = None) -> Tally:
        self.tally.resets += 1
        return self.tally.model_copy()

    def step(self, action: Token, timeout_s: float | None = None) -> Tally:
        if action.wait:
            self.gate.entered.set()
            self.gate.leave.wait(self.gate.limit_s)
        self.tally.steps += 1
        self.tally.token = action.token
        return self.tally.model_copy()

    def close(self) -> None:
        self.closed.append((self.tally.instance, self.tally.steps))


class Branching(Counting):
    """Counts how often it was saved and restored, too."""

    saved: ClassVar[int] = 0
    restored: ClassVar[int] = 0

    def snapshot(self) -> bytes:
        type(self).saved += 1
        return self.tally.model_dump_json().encode()

    def restore(self, snapshot: bytes) -> None:
        type(self).restored += 1
        was = Tally.model_validate_json(snapshot)
        self.tally = was.model_copy(update={"instance": self.tally.instance})


class CountingTools(MCPEnvironment):
    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def reset(self, seed: int | None = None, episode_id: str | None = None) -> Observation:
        return Observation()

    @tool
    def count(self, token: str) -> str:
        """Counts a call and gives its token back."""
        self.calls += 1
        return f"{self.calls} {token}"
