from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel, Field

from openenv_grpc.environment import Environment
from openenv_grpc.errors import (
    EnvironmentFactoryError,
    EnvironmentFailedError,
    InvalidArgumentsError,
    ToolNotFoundError,
)
from openenv_grpc.operations import Evaluated, Kind
from openenv_grpc.rubrics import Rubric
from openenv_grpc.tools import CallToolAction, CallToolObservation
from openenv_grpc.types import Action, ServerMode
from tests.engine.talking import opened
from tests.environments import Count, Countdown, Counted, Toolbox, ToolSteps

TOOLS = {"action_type": CallToolAction, "observation_type": CallToolObservation}


# Our environments with tools


async def test_tools_are_listed_and_called() -> None:
    async with opened(Toolbox, **TOOLS) as caller:
        assert await caller.do(Kind.LIST_TOOLS) == {
            "tools": ["add", "submit", "fail", "simulate"],
            "by_step": False,
        }
        answer = await caller.do(Kind.CALL_TOOL, ("add", {"a": 1, "b": 2}))
        assert answer == {"text": "3", "data": 3, "is_error": False}
        failed = await caller.do(Kind.CALL_TOOL, ("fail", {"reason": "tired"}))
        assert failed["is_error"]
        assert "tired" in failed["text"]
        with pytest.raises(ToolNotFoundError):
            await caller.do(Kind.CALL_TOOL, ("subtract", {}))
        with pytest.raises(InvalidArgumentsError):
            await caller.do(Kind.CALL_TOOL, ("add", {"a": "one", "b": 2}))


async def test_tools_work_in_production_mode_but_for_those_of_simulations() -> None:
    async with opened(Toolbox, mode=ServerMode.PRODUCTION, **TOOLS) as caller:
        assert (await caller.do(Kind.LIST_TOOLS))["tools"] == ["add", "submit", "fail"]
        with pytest.raises(ToolNotFoundError):
            await caller.do(Kind.CALL_TOOL, ("simulate", {}))
        await caller.do(Kind.CALL_TOOL, ("add", {"a": 1, "b": 2}))


async def test_what_tool_calls_earn_is_told_by_evaluate_and_not_to_the_agent() -> None:
    async with opened(Toolbox, **TOOLS) as caller:
        await caller.reset()
        assert await caller.do(Kind.EVALUATE) == {
            "reward": None,
            "rewards": {},
            "done": False,
            "truncated": False,
        }
        answer = await caller.do(Kind.CALL_TOOL, ("submit", {"answer": "42"}))
        assert answer == {"text": "taken", "data": "taken", "is_error": False}
        verdict = await caller.do(Kind.EVALUATE)
        assert (verdict["reward"], verdict["done"]) == (1.0, True)
        await caller.reset()
        assert (await caller.do(Kind.EVALUATE))["reward"] is None


async def test_a_tool_can_be_called_by_a_step() -> None:
    async with opened(Toolbox, **TOOLS) as caller:
        action = {"tool_name": "submit", "arguments": {"answer": "42"}}
        observed = await caller.do(Kind.STEP, action)
        assert (observed["reward"], observed["done"]) == (1.0, True)


# Verdicts of the environment's own


@pytest.mark.parametrize(
    ("verdict", "reward", "rewards"),
    [
        (0.5, 0.5, {}),
        (None, None, {}),
        ({"style": 0.25, "truth": 0.5}, 0.75, {"style": 0.25, "truth": 0.5}),
        (Evaluated(reward=2, rewards={"a": 2.0}), 2, {"a": 2.0}),
    ],
    ids=["number", "none", "parts", "whole"],
)
@pytest.mark.parametrize("asynchronous", [False, True])
async def test_an_environment_may_evaluate_itself(
    verdict: Any, reward: float | None, rewards: dict[str, float], *, asynchronous: bool
) -> None:
    class Judged(Countdown):
        def evaluate(self) -> Any:
            return verdict

    class AsyncJudged(Countdown):
        async def evaluate(self) -> Any:
            return verdict

    async with opened(AsyncJudged if asynchronous else Judged) as caller:
        told = await caller.do(Kind.EVALUATE)
        assert (told["reward"], told["rewards"]) == (reward, rewards)


async def test_a_verdict_that_fails_is_an_error_and_no_reward() -> None:
    class Judged(Countdown):
        def evaluate(self) -> float:
            raise ZeroDivisionError

    async with opened(Judged) as caller:
        with pytest.raises(EnvironmentFailedError):
            await caller.do(Kind.EVALUATE)


async def test_the_parts_of_a_rubric_are_told_beside_the_reward() -> None:
    class Half(Rubric):
        def forward(self, action: Any, observation: Any) -> float:
            return 0.5

    class Both(Rubric):
        def __init__(self) -> None:
            self.style = Half()
            self.truth = Half()

        def forward(self, action: Any, observation: Any) -> float:
            return float(self.style(action, observation) + self.truth(action, observation))

    class Graded(Countdown):
        def __init__(self) -> None:
            super().__init__(rubric=Both())

        def step(self, action: Count, timeout_s: float | None = None) -> Counted:
            observation = super().step(action, timeout_s)
            observation.reward = self._apply_rubric(action, observation)
            return observation

    async with opened(Graded) as caller:
        observed = await caller.step()
        assert (observed["reward"], observed["rewards"]) == (1.0, {"style": 0.5, "truth": 0.5})


# Environments that take tool calls as steps


async def test_a_tool_call_becomes_a_step_where_there_are_no_tools() -> None:
    async with opened(ToolSteps, **TOOLS) as caller:
        assert await caller.do(Kind.LIST_TOOLS) == {"tools": ["say"], "by_step": True}
        reply = await caller.ask(Kind.CALL_TOOL, ("say", {"word": "hi"}))
        assert reply.error is None
        assert caller.session.info().step_count == 1
        with pytest.raises(EnvironmentFailedError) as caught:
            await caller.do(Kind.CALL_TOOL, ("odd", {}))
        assert caught.value.metadata["exception_text"] == (
            "MCP-style tools/call step returned Observation, expected CallToolObservation"
        )


# Environments with a client or a server of the reference's kind


class Described(BaseModel):
    name: str
    description: str | None = None
    input_schema: dict[str, Any] = Field(default={"type": "object"}, alias="inputSchema")


class Block(BaseModel):
    type: str = "text"
    text: str


class FakeClient:
    """Answers as the client of a tool server does."""

    async def list_tools(self) -> list[Described]:
        await asyncio.sleep(0)
        return [Described(name="echo"), Described(name="fail")]

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        await asyncio.sleep(0)
        if name != "echo":
            raise RuntimeError(f"cannot {name}")
        return SimpleNamespace(
            content=[Block(text=arguments["text"])],
            structured_content={"result": arguments["text"]},
            data=arguments["text"],
            meta=None,
            is_error=False,
        )


class WithClient(Environment[Any, Any, Any]):
    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True
    events: ClassVar[list[str]] = []

    def __init__(self) -> None:
        super().__init__()
        self.mcp_client = FakeClient()

    @asynccontextmanager
    async def mcp_session(self) -> AsyncIterator[Any]:
        entered_by = asyncio.current_task()
        self.events.append("enter")
        yield self.mcp_client
        assert asyncio.current_task() is entered_by
        self.events.append("leave")

    def reset(self, **kwargs: Any) -> Any:
        return Counted()

    def step(self, action: Action, **kwargs: Any) -> Any:
        return Counted()

    def close(self) -> None:
        self.events.append("close")


async def test_a_client_of_the_environment_is_asked_on_the_loop() -> None:
    async with opened(WithClient) as caller:
        assert (await caller.do(Kind.LIST_TOOLS))["tools"] == ["echo", "fail"]
        answer = await caller.do(Kind.CALL_TOOL, ("echo", {"text": "hi"}))
        assert answer == {"text": "hi", "data": "hi", "is_error": False}
        failed = await caller.do(Kind.CALL_TOOL, ("fail", {}))
        assert failed == {"text": "cannot fail", "data": None, "is_error": True}
        with pytest.raises(ToolNotFoundError, match="cannot fly"):
            await caller.do(Kind.CALL_TOOL, ("fly", {}))


async def test_tools_of_the_servers_mode_are_listed_and_called_beside_the_clients() -> None:
    described = {"description": "", "input_schema": {"type": "object"}}

    class WithModes(WithClient):
        _mode: Any = None
        _mode_tools: ClassVar[dict[str, Any]] = {
            "twice": {"simulation": lambda number: 2 * number},
            "hidden": {"production": lambda: None},
        }
        _mode_tool_schemas: ClassVar[dict[str, Any]] = {
            "twice": {"simulation": described},
            "hidden": {"production": described},
        }

    # The engine tells the mode to classes of the reference; this one only looks like theirs.
    WithModes._mode = ServerMode.SIMULATION
    async with opened(WithModes) as caller:
        assert (await caller.do(Kind.LIST_TOOLS))["tools"] == ["echo", "fail", "twice"]
        assert (await caller.do(Kind.CALL_TOOL, ("twice", {"number": 4})))["data"] == 8
        with pytest.raises(ToolNotFoundError):
            await caller.do(Kind.CALL_TOOL, ("hidden", {}))


async def test_the_connection_to_tools_lasts_as_long_as_the_session() -> None:
    WithClient.events.clear()
    async with opened(WithClient) as caller:
        await caller.reset()
        await caller.do(Kind.LIST_TOOLS)
        assert WithClient.events == ["enter"]
    assert WithClient.events == ["enter", "leave", "close"]


async def test_a_connection_to_tools_that_fails_fails_the_opening() -> None:
    closed: list[bool] = []

    class Unconnected(WithClient):
        @asynccontextmanager
        async def mcp_session(self) -> AsyncIterator[Any]:
            raise ConnectionError("no server")
            yield

        def close(self) -> None:
            closed.append(True)

    async with opened(Unconnected) as caller:
        with pytest.raises(EnvironmentFactoryError):
            await caller.reset()
    assert closed == [True]


async def test_a_connection_to_tools_that_never_comes_does_not_outlive_its_session() -> None:
    connecting = asyncio.Event()

    class Unconnected(WithClient):
        @asynccontextmanager
        async def mcp_session(self) -> AsyncIterator[Any]:
            connecting.set()
            await asyncio.Event().wait()
            yield

    async with opened(Unconnected) as caller:
        caller.send(Kind.RESET)
        async with asyncio.timeout(5):
            await connecting.wait()


async def test_a_server_without_a_client_is_asked_for_its_functions() -> None:
    async def double(number: int) -> int:
        await asyncio.sleep(0)
        return 2 * number

    tool = SimpleNamespace(name="double", description=None, parameters={}, fn=double)

    class FakeServer:
        async def list_tools(self) -> list[Any]:
            return [tool]

    class WithServer(Countdown):
        def __init__(self) -> None:
            super().__init__()
            self.mcp_server = FakeServer()

    async with opened(WithServer) as caller:
        assert (await caller.do(Kind.LIST_TOOLS))["tools"] == ["double"]
        assert (await caller.do(Kind.CALL_TOOL, ("double", {"number": 4})))["data"] == 8
        failed = await caller.do(Kind.CALL_TOOL, ("double", {"wrong": 4}))
        assert failed["is_error"]
        with pytest.raises(ToolNotFoundError, match="Tool not found: halve"):
            await caller.do(Kind.CALL_TOOL, ("halve", {}))
