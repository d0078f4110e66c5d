"""What the client's tests drive."""

from __future__ import annotations

import threading
from typing import Any, Literal

import numpy
from pydantic import Field

from openenv_grpc import Action, Environment, MCPEnvironment, Observation, State, tool

WAIT_S = 10.0


class Gate:
    """Holds steps until a test lets them go on."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.entered = threading.Event()
        self.opened = threading.Event()

    def pass_through(self) -> None:
        self.entered.set()
        assert self.opened.wait(WAIT_S)


GATES: dict[str, Gate] = {}
"""By the text of the step that they hold."""


class TurnAction(Action):
    op: Literal["say", "fail", "finish", "cut", "wait", "limit", "look", "kwargs"] = "say"
    text: str = Field(default="", max_length=10_000_000)
    frame: Any = None


class TurnObservation(Observation):
    text: str = ""
    turn: int = 0
    limit_s: float | None = None
    frame: Any = None
    frames: list[Any] = Field(default_factory=list)


class TurnState(State):
    last_text: str = ""


class TurnEnvironment(Environment[TurnAction, TurnObservation, TurnState]):
    SUPPORTS_CONCURRENT_SESSIONS = True
    SNAPSHOT_FIELDS = ("_state",)

    _state: TurnState

    def __init__(self) -> None:
        self._state = TurnState()

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, level: int = 0
    ) -> TurnObservation:
        self._state = TurnState(episode_id=episode_id)
        return TurnObservation(text=f"seed={seed} level={level}")

    def step(
        self, action: TurnAction, timeout_s: float | None = None, effort: int = 0
    ) -> TurnObservation:
        self._state.step_count += 1
        self._state.last_text = action.text
        seen = TurnObservation(text=action.text, turn=self._state.step_count, reward=0.5)
        match action.op:
            case "fail":
                raise ValueError(f"asked to fail: {action.text}")
            case "finish":
                seen.done = True
            case "cut":
                seen.done = seen.truncated = True
            case "wait":
                GATES[action.text].pass_through()
            case "limit":
                seen.limit_s = timeout_s
            case "look":
                frame = numpy.asarray(action.frame)
                seen.frame = frame * 2
                seen.frames = [frame, {"sum": int(frame.sum())}]
            case "kwargs":
                seen.metadata = {"effort": effort}
        return seen

    @property
    def state(self) -> TurnState:
        return self._state


class GatedEnvironment(TurnEnvironment):
    """Can be built once the gate of the test that builds it is open."""

    def __init__(self) -> None:
        super().__init__()
        next(iter(GATES.values())).pass_through()


class BrokenEnvironment(TurnEnvironment):
    def __init__(self) -> None:
        raise OSError("no such game")


class ToolEnvironment(MCPEnvironment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, **kwargs: Any) -> Observation:
        return Observation(metadata={"greeting": "hello"})

    @tool
    def add(self, a: int, b: int) -> int:
        """Adds two integers."""
        return a + b

    @tool
    def describe(self, name: str) -> dict[str, Any]:
        """Describes something."""
        return {"name": name, "size": len(name)}

    @tool
    def boom(self) -> str:
        """Fails."""
        raise ValueError("it broke")
