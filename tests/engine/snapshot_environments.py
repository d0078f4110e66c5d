"""Environments that can be saved, in one way or another."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, ClassVar

from openenv_grpc.environment import Environment
from openenv_grpc.mcp_environment import MCPEnvironment
from openenv_grpc.rubrics import TrajectoryRubric
from openenv_grpc.tools import ToolOutcome, tool
from openenv_grpc.types import Action, Observation, State
from tests.environments import AsyncCountdown, Count, Countdown, Counted


class Drawing(Countdown):
    """Draws a number at each step. Its state is data."""

    SNAPSHOT_FIELDS = ("left", "steps")

    def step(self, action: Count, timeout_s: float | None = None) -> Counted:
        counted = super().step(action, timeout_s)
        counted.text = f"drew {self.rng.randrange(1000)}"
        return counted


class AsyncDrawing(AsyncCountdown):
    """The same, awaited."""

    SNAPSHOT_FIELDS = ("left", "steps")

    async def step_async(
        self, action: Count, timeout_s: float | None = None, **kwargs: Any
    ) -> Counted:
        counted = await super().step_async(action, timeout_s)
        counted.text = f"drew {self.rng.randrange(1000)}"
        return counted


class Telling(Countdown):
    """Saves itself, and does harm if an action said so before."""

    harm = ""

    def step(self, action: Count, timeout_s: float | None = None) -> Counted:
        self.harm = action.text
        return super().step(action, timeout_s)

    def snapshot(self) -> bytes:
        match self.harm:
            case "no bytes":
                return {"left": self.left}  # type: ignore[return-value]
            case "cannot be saved":
                raise ValueError("amid a move")
        return f"{self.left} {self.harm}".encode()

    def restore(self, snapshot: bytes) -> None:
        left, _, harm = snapshot.decode().partition(" ")
        match harm:
            case "cannot be restored":
                raise ValueError("no such position")
            case "exit":
                raise SystemExit(3)
        self.left = int(left)


class AsyncTelling(AsyncCountdown):
    """Is awaited while it saves itself. A step may have the next restoring wait."""

    restoring: ClassVar[asyncio.Event]
    saving: ClassVar[asyncio.Event]
    waits = ""
    closed: ClassVar[int] = 0

    async def step_async(
        self, action: Count, timeout_s: float | None = None, **kwargs: Any
    ) -> Counted:
        self.waits = action.text
        return await super().step_async(action, timeout_s)

    async def snapshot(self) -> bytes:
        if self.waits == "saving":
            self.saving.set()
            await asyncio.Event().wait()
        return f"{self.left} {self.waits}".encode()

    async def restore(self, snapshot: bytes) -> None:
        left, _, self.waits = snapshot.decode().partition(" ")
        await asyncio.sleep(0)
        if self.waits == "restoring":
            self.restoring.set()
            await asyncio.Event().wait()
        self.left = int(left)

    def close(self) -> None:
        type(self).closed += 1


class Threaded(Drawing):
    """Is built, saved and restored on one thread, or says so."""

    def __init__(self) -> None:
        super().__init__()
        self._thread = threading.get_ident()

    def snapshot(self) -> bytes:  # goes before the names
        assert threading.get_ident() == self._thread
        return str(self.left).encode()

    def restore(self, snapshot: bytes) -> None:
        assert threading.get_ident() == self._thread
        self.left = int(snapshot)


class Stateless(Countdown):
    """Has nothing but what the server keeps."""

    SNAPSHOT_FIELDS = ()

    def step(self, action: Count, timeout_s: float | None = None) -> Counted:
        return Counted(text=f"drew {self.rng.randrange(1000)}")


class Purse(MCPEnvironment):
    """Has a tool that earns."""

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True
    SNAPSHOT_FIELDS = ("coins",)

    coins = 0

    def reset(self, seed: int | None = None, episode_id: str | None = None) -> Observation:
        self.coins = 0
        return Observation()

    @tool
    def earn(self, coins: int) -> ToolOutcome:
        """Adds coins and tells how many there are."""
        self.coins += coins
        return ToolOutcome(f"{self.coins} coins", reward=float(coins))


class Remembering(Drawing):
    """Has a rubric that scores whole episodes."""

    def __init__(self) -> None:
        super().__init__(rubric=Last())


class Last(TrajectoryRubric):
    def score_trajectory(self, trajectory: list[tuple[Any, Any]]) -> float:
        return float(len(trajectory))

    def compute_step_rewards(self) -> list[float]:
        return []


class Tooled(MCPEnvironment):
    """Has tools of the names by which others save themselves."""

    def reset(self, seed: int | None = None, episode_id: str | None = None) -> Observation:
        return Observation()

    @tool
    def snapshot(self) -> str:
        """Takes a picture."""
        return "picture"

    @tool
    def restore(self, name: str) -> str:
        """Brings a file back."""
        return name


class OddRestore(Environment[Action, Observation, State]):
    """Has methods of these names that mean something else."""

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any
    ) -> Observation:
        return Observation()

    def step(self, action: Action, timeout_s: float | None = None, **kwargs: Any) -> Observation:
        return Observation()

    def snapshot(self) -> str:
        return "picture"

    def restore(self, path: str, mode: str) -> None:
        raise NotImplementedError
