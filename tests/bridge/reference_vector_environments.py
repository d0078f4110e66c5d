"""The five environments of the recorded exchanges, on the reference's classes."""

from __future__ import annotations

import asyncio
import datetime
import decimal
import enum
import time
import uuid
from typing import Any, Literal

import numpy
from fastmcp import FastMCP
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.mcp_types import (
    CallToolAction,
    CallToolObservation,
    ListToolsAction,
    ListToolsObservation,
    Tool,
    ToolError,
    ToolErrorType,
)
from openenv.core.env_server.types import Action, Observation, State
from pydantic import BaseModel, Field, field_validator

Op = Literal[
    "echo",
    "finish",
    "fail",
    "meta",
    "reward",
    "payload",
    "sleep",
    "badtype",
    "badmodel",
    "kwargs",
]


class ProbeAction(Action):
    op: Op = "echo"
    text: str = Field(min_length=1, max_length=100)
    amount: int = Field(default=0, ge=0, le=5000)

    @field_validator("text")
    @classmethod
    def _not_forbidden(cls, text: str) -> str:
        if text == "forbidden":
            raise ValueError("text is forbidden")
        return text


class ProbeObservation(Observation):
    text: str
    turn: int
    payload: Any = None


class ProbeState(State):
    level: int = 0
    last_text: str | None = None


class Inner(BaseModel):
    a: int


class Colour(enum.Enum):
    RED = "red"


class Plain:
    def __init__(self) -> None:
        self.attribute = 1


PAYLOADS: dict[str, Any] = {
    "bytes": b"abc",
    "datetime": datetime.datetime(2020, 1, 2, 3, 4, 5),
    "set": {7},
    "tuple": (1, 2),
    "ndarray": numpy.array([1, 2]),
    "npint": numpy.int64(3),
    "npfloat": numpy.float64(1.5),
    "object": Plain(),
    "nan": float("nan"),
    "bigint": 2**70,
    "model": Inner(a=1),
    "enum": Colour.RED,
    "decimal": decimal.Decimal("1.20"),
    "uuid": uuid.UUID(int=1),
    "intkeys": {1: "one"},
    "nested": {"a": [1, {"b": None}]},
}

REWARDS: dict[str, Any] = {
    "int": 3,
    "bool": True,
    "nan": float("nan"),
    "inf": float("inf"),
    "none": None,
}


class ProbeEnv(Environment[ProbeAction, ProbeObservation, ProbeState]):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._state = ProbeState()
        self._closed = False

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, level: int = 0
    ) -> ProbeObservation:
        if level < 0:
            raise ValueError("level must not be negative")
        self._state = ProbeState(episode_id=episode_id, step_count=0, level=level)
        return ProbeObservation(text="ready", turn=0, payload={"seed": seed, "level": level})

    def step(
        self, action: ProbeAction, timeout_s: float | None = None, request_id: str | None = None
    ) -> Any:
        if self._closed:
            raise RuntimeError("probe is closed")
        match action.op:
            case "fail":
                raise RuntimeError(f"probe failure: {action.text}")
            case "badtype":
                return {"text": action.text}
            case "badmodel":
                return ProbeObservation(text="", turn="many")  # type: ignore[arg-type]  # on purpose
            case "sleep":
                time.sleep(action.amount / 1000)
        self._state.step_count += 1
        self._state.last_text = action.text
        observation = ProbeObservation(text=action.text, turn=self._state.step_count, reward=0.5)
        match action.op:
            case "finish":
                observation.done = True
                observation.reward = 1.0
            case "meta":
                observation.metadata = {"note": action.text}
            case "reward":
                observation.reward = REWARDS[action.text]
            case "payload":
                observation.payload = PAYLOADS[action.text]
            case "kwargs":
                observation.payload = {"timeout_s": timeout_s, "request_id": request_id}
        return observation

    @property
    def state(self) -> ProbeState:
        return self._state

    def close(self) -> None:
        self._closed = True


class ToolsEnv(MCPEnvironment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        server: FastMCP = FastMCP("tools")
        self._counter = 0
        self._state = State()

        @server.tool
        def add(a: int, b: int) -> int:
            """Add two integers."""
            return a + b

        @server.tool
        def bump() -> int:
            """Increase a per-session counter and return it."""
            self._counter += 1
            return self._counter

        @server.tool
        def boom(reason: str) -> str:
            """Always raises."""
            raise ValueError(f"boom: {reason}")

        @server.tool
        def record() -> dict:
            """Return a small object."""
            return {"k": [1, 2], "s": "t"}

        @server.tool
        async def nap(seconds: float) -> str:
            """Sleep, then answer."""
            await asyncio.sleep(seconds)
            return "rested"

        super().__init__(server)

        @self.tool(mode="simulation")
        def sim_only(x: int, flag: bool = False) -> str:
            """Exist in simulation only."""
            return f"{x} {flag}"

        @self.tool(mode="production")
        def prod_only(y: str) -> str:
            """Exist in production only."""
            return y

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any
    ) -> Observation:
        self._counter = 0
        self._state = State(episode_id=episode_id, step_count=0)
        return Observation(reward=0.0, done=False, metadata={"ready": True})

    def _step_impl(
        self, action: Action, timeout_s: float | None = None, **kwargs: Any
    ) -> Observation:
        return Observation(metadata={"unrouted": type(action).__name__})

    @property
    def state(self) -> State:
        return self._state


class StyleEnv(Environment[Action, Observation, State]):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._calls = 0

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any
    ) -> Observation:
        self._calls = 0
        return Observation(metadata={"kw": kwargs})

    def step(self, action: Action, timeout_s: float | None = None, **kwargs: Any) -> Observation:
        match action:
            case ListToolsAction():
                schema = {"type": "object", "properties": {"w": {"type": "string"}}}
                say = Tool(name="say", description="Say it.", input_schema=schema)
                return ListToolsObservation(tools=[say])
            case CallToolAction():
                self._calls += 1
                return self._call(action)
            case _:
                return Observation()

    def _call(self, action: CallToolAction) -> Observation:
        match action.tool_name:
            case "say":
                return CallToolObservation(
                    tool_name="say",
                    result={"data": action.arguments.get("w"), "calls": self._calls},
                    reward=0.25,
                )
            case "odd":
                return Observation(metadata={"odd": True})
            case name:
                error = ToolError(error_type=ToolErrorType.TOOL_NOT_FOUND, message="no such tool")
                return CallToolObservation(tool_name=name, error=error)

    @property
    def state(self) -> State:
        return State(step_count=self._calls)


class OddSplit(BaseModel):
    a: int = 1


class TasksEnv(ProbeEnv):
    def list_splits(self) -> list[Any]:
        return ["train", "extra", {"name": "d", "type": "test", "n": 2}, OddSplit()]

    def list_tasks(self, split: str) -> list[dict[str, str]]:
        if split == "nope":
            raise KeyError(split)
        return [{"id": f"{split}-{number}"} for number in range(3)]

    def num_tasks(self, split: str) -> int:
        return len(self.list_tasks(split))

    def get_task(self, split: str, index: int) -> dict[str, str]:
        return self.list_tasks(split)[index]

    async def get_task_range(
        self, split: str, start: int | None = None, stop: int | None = None
    ) -> list[dict[str, str]]:
        return self.list_tasks(split)[start:stop]


def bad_factory() -> Environment[Action, Observation, State]:
    raise RuntimeError("this factory never works")
