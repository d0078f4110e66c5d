"""Environments written against the reference, served by our engine as they are."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fastmcp import FastMCP
from openenv.core.env_server import Action, Environment, MCPEnvironment, Observation, State
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
from openenv.core.rubrics import Rubric

from openenv_grpc.engine import EnvironmentDefinition, SessionManager
from openenv_grpc.environment_spec import EnvironmentSpec
from openenv_grpc.errors import InvalidActionError, OpenEnvError, ToolNotFoundError
from openenv_grpc.operations import Kind, Operation, ResetArguments, Result, StepArguments, ToolCall
from openenv_grpc.sessions import SessionPort, ask


class Kept:
    """A codec that leaves values as they are: reads the payload, puts the result beside it."""

    def read_reset(self, operation: Operation, spec: EnvironmentSpec) -> ResetArguments:
        return ResetArguments(keywords=operation.payload or {})

    def read_step(self, operation: Operation, spec: EnvironmentSpec) -> StepArguments:
        return StepArguments(action=spec.action_reader.from_value(operation.payload))

    def read_tool_call(self, operation: Operation, spec: EnvironmentSpec) -> ToolCall:
        return ToolCall(**operation.payload)

    def write(self, operation: Operation, result: Result, spec: EnvironmentSpec) -> bytes:
        operation.context = result
        return b""

    def write_error(
        self, operation: Operation, error: OpenEnvError, spec: EnvironmentSpec | None
    ) -> bytes:
        return b""


@asynccontextmanager
async def session_of(
    environment: type, action: type[Action], observation: type[Observation]
) -> AsyncIterator[SessionPort]:
    definition = EnvironmentDefinition(
        factory=environment, action_type=action, observation_type=observation
    )
    async with (
        asyncio.timeout(20),
        SessionManager([definition]) as host,
        host.attach(peer="test") as attachment,
    ):
        yield attachment.open("")


async def do(session: SessionPort, kind: Kind, payload: Any = None) -> Any:
    operation = Operation(kind=kind, codec=Kept(), payload=payload)
    reply = await ask(session, operation)
    if reply.error is not None:
        raise reply.error
    return operation.context


class Move(Action):
    amount: int


class Position(Observation):
    at: int


class Far(Rubric):
    def forward(self, action: Any, observation: Any) -> float:
        return float(observation.at)


class Walk(Environment):
    """As the reference's documents show an environment."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    closed: list[int] = []  # noqa: RUF012  # shared by all, for the test to see

    def __init__(self) -> None:
        super().__init__(rubric=Far())
        self._at = 0
        self._state = State()

    def reset(self, seed: int | None = None, episode_id: str | None = None) -> Position:
        self._at = seed or 0
        self._state = State(episode_id=episode_id, step_count=0)
        return Position(at=self._at)

    def step(self, action: Move, timeout_s: float | None = None) -> Position:
        if action.amount == 0:
            raise RuntimeError("no standing still")
        self._at += action.amount
        self._state.step_count += 1
        observation = Position(at=self._at, done=self._at > 5)
        observation.reward = self._apply_rubric(action, observation)
        return observation

    @property
    def state(self) -> State:
        return self._state

    def close(self) -> None:
        self.closed.append(self._at)


class AsyncWalk(Walk):
    async def reset_async(
        self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any
    ) -> Position:
        await asyncio.sleep(0)
        return self.reset(seed, episode_id)

    async def step_async(
        self, action: Move, timeout_s: float | None = None, **kwargs: Any
    ) -> Position:
        await asyncio.sleep(0)
        observation = self.step(action)
        observation.metadata = {"thread": threading.get_ident()}
        return observation


@pytest.mark.parametrize("environment", [Walk, AsyncWalk])
async def test_an_episode_runs(environment: type[Walk]) -> None:
    environment.closed.clear()

    async with session_of(environment, Move, Position) as session:
        first = await do(session, Kind.RESET, {"seed": 1, "episode_id": "e", "unknown": 2})
        then = await do(session, Kind.STEP, {"amount": 2})
        last = await do(session, Kind.STEP, {"amount": 4})
        state = await do(session, Kind.STATE)

    assert (first.observation.at, first.episode_id) == (1, "e")
    assert (then.observation.at, then.reward, then.done) == (3, 3.0, False)
    assert (last.observation.at, last.reward, last.done) == (7, 7.0, True)
    assert (state.state.step_count, state.episode_id) == (2, "e")
    assert environment.closed == [7]


async def test_asynchronous_methods_are_awaited_on_the_loop() -> None:
    async with session_of(AsyncWalk, Move, Position) as session:
        await do(session, Kind.RESET)
        stepped = await do(session, Kind.STEP, {"amount": 1})

    assert stepped.observation.metadata["thread"] == threading.get_ident()


@pytest.mark.parametrize("environment", [Walk, AsyncWalk])
async def test_a_failed_step_leaves_the_session_open(environment: type[Walk]) -> None:
    async with session_of(environment, Move, Position) as session:
        await do(session, Kind.RESET)
        with pytest.raises(OpenEnvError, match="no standing still"):
            await do(session, Kind.STEP, {"amount": 0})
        with pytest.raises(InvalidActionError):
            await do(session, Kind.STEP, {"amount": "far"})
        stepped = await do(session, Kind.STEP, {"amount": 1})

    assert stepped.observation.at == 1


class Tools(MCPEnvironment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        server = FastMCP("tools")
        self._count = 0

        @server.tool
        def bump(by: int = 1) -> int:
            """Counts on."""
            self._count += by
            return self._count

        @server.tool
        def boom() -> str:
            raise ValueError("boom")

        super().__init__(server)

        @self.tool(mode="simulation")
        def sim_only(x: int) -> int:
            return x

    def reset(self, **kwargs: Any) -> Observation:
        self._count = 0
        return Observation(reward=0.0, metadata={"ready": True})

    def _step_impl(self, action: Any, timeout_s: float | None = None, **kwargs: Any) -> Observation:
        return Observation(metadata={"unrouted": type(action).__name__})

    @property
    def state(self) -> State:
        return State(step_count=self._count)


async def test_tools_are_called_by_step_and_beside_it() -> None:
    async with session_of(Tools, CallToolAction, CallToolObservation) as session:
        await do(session, Kind.RESET)
        stepped = await do(session, Kind.STEP, {"tool_name": "bump", "arguments": {"by": 2}})
        listed = await do(session, Kind.LIST_TOOLS)
        called = await do(session, Kind.CALL_TOOL, {"name": "bump"})
        state = await do(session, Kind.STATE)

    assert stepped.observation.result.data == 2
    assert called.data == 3
    assert [tool.name for tool in listed.tools][:2] == ["bump", "boom"]
    assert state.step_count == 3


async def test_tools_fail_as_they_should() -> None:
    async with session_of(Tools, CallToolAction, CallToolObservation) as session:
        failed = await do(session, Kind.CALL_TOOL, {"name": "boom"})
        stepped = await do(session, Kind.STEP, {"tool_name": "boom"})
        with pytest.raises(ToolNotFoundError):
            await do(session, Kind.CALL_TOOL, {"name": "nosuch"})

    assert failed.is_error
    assert stepped.observation.error.error_type == "execution_error"


async def test_tools_of_a_mode_are_reached_by_step_in_that_mode() -> None:
    async with session_of(Tools, CallToolAction, CallToolObservation) as session:
        listed = await do(session, Kind.STEP, {"type": "list_tools"})
        stepped = await do(session, Kind.STEP, {"tool_name": "sim_only", "arguments": {"x": 4}})

    assert [tool.name for tool in listed.observation.tools] == ["bump", "boom", "sim_only"]
    assert stepped.observation.result.data == 4
