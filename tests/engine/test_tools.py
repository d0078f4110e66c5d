from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel, Field

from openenv_grpc.engine import EngineSettings
from openenv_grpc.environment import Environment
from openenv_grpc.errors import (
    EnvironmentFactoryError,
    EnvironmentFailedError,
    EpisodeNotStartedError,
    InvalidArgumentsError,
    ResourceNotFoundError,
    ToolNotFoundError,
)
from openenv_grpc.operations import Evaluated, Kind, PromptQuery, ResourceQuery
from openenv_grpc.rubrics import Rubric
from openenv_grpc.tools import CallToolAction, CallToolObservation, resource
from openenv_grpc.types import Action, ServerMode
from tests.engine.talking import opened
from tests.environments import (
    AsyncCountdown,
    Count,
    Countdown,
    Counted,
    InlineCountdown,
    Library,
    Toolbox,
    ToolSteps,
)
from tests.mcp_packages import SERVERS

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


# Environments without tools: `act`


@pytest.mark.parametrize(
    "factory", [Countdown, AsyncCountdown, InlineCountdown], ids=["thread", "async", "inline"]
)
async def test_an_environment_without_tools_has_one_that_acts(factory: type[Countdown]) -> None:
    async with opened(factory) as caller:
        assert (await caller.do(Kind.LIST_TOOLS))["tools"] == ["act"]
        await caller.reset(start=3)
        answer = await caller.do(Kind.CALL_TOOL, ("act", {"by": 2, "text": "hi"}))
        assert answer["data"] == {"left": 1, "text": "hi", "done": False}
        assert caller.session.info().step_count == 1
        with pytest.raises(InvalidArgumentsError, match="by: Input should be a valid integer"):
            await caller.do(Kind.CALL_TOOL, ("act", {"by": "much"}))
        with pytest.raises(ToolNotFoundError):
            await caller.do(Kind.CALL_TOOL, ("step", {}))
        assert (await caller.do(Kind.CALL_TOOL, ("act", {"by": 1})))["data"]["done"]
        verdict = await caller.do(Kind.EVALUATE)
        assert (verdict["reward"], verdict["done"]) == (3.0, True)


async def test_acting_before_a_reset_is_refused_where_steps_are() -> None:
    class Strict(Countdown):
        REQUIRES_RESET: ClassVar[bool] = True

    async with opened(Strict) as caller:
        with pytest.raises(EpisodeNotStartedError):
            await caller.do(Kind.CALL_TOOL, ("act", {}))


async def test_listing_act_takes_no_thread_from_an_asynchronous_environment() -> None:
    async with opened(AsyncCountdown) as caller:
        await caller.reset()
        before = threading.active_count()
        await caller.do(Kind.LIST_TOOLS)
        assert threading.active_count() <= before


# Resources and prompts


@pytest.mark.parametrize("isolation", ["thread", "inline", "process"])
async def test_resources_and_prompts_are_listed_and_read(isolation: str) -> None:
    settings = EngineSettings(process_pool_size=0)
    async with opened(Library, isolation=isolation, settings=settings) as caller:
        listed = await caller.do(Kind.LIST_RESOURCES)
        assert [each["uri"] for each in listed["resources"]] == ["library://catalogue"]
        assert [each["uri"] for each in listed["templates"]] == ["library://books/{title}"]
        read = await caller.do(Kind.READ_RESOURCE, ResourceQuery(uri="library://books/emma"))
        assert read["contents"][0]["text"] == "the text of emma"
        with pytest.raises(ResourceNotFoundError):
            await caller.do(Kind.READ_RESOURCE, ResourceQuery(uri="library://films"))
        prompts = await caller.do(Kind.LIST_PROMPTS)
        assert [each["name"] for each in prompts["prompts"]] == ["review"]
        query = PromptQuery(name="review", arguments={"title": "Emma", "words": "9"})
        said = await caller.do(Kind.GET_PROMPT, query)
        assert said["messages"][0]["content"]["text"] == "Review Emma in 9 words."


@pytest.mark.parametrize("base", [Countdown, AsyncCountdown], ids=["thread", "async"])
async def test_any_environment_may_have_resources(base: type[Countdown]) -> None:
    class Told(base):  # type: ignore[misc,valid-type]  # the point of the test
        @resource("game://rules")
        async def rules(self) -> str:
            """The rules."""
            return "count down"

    async with opened(Told) as caller:
        read = await caller.do(Kind.READ_RESOURCE, ResourceQuery(uri="game://rules"))
        assert read["contents"][0]["text"] == "count down"
        assert (await caller.do(Kind.LIST_PROMPTS)) == {"prompts": []}


async def test_resources_and_prompts_are_there_in_production_too() -> None:
    async with opened(Library, mode=ServerMode.PRODUCTION) as caller:
        assert (await caller.do(Kind.LIST_RESOURCES))["resources"]
        assert (await caller.do(Kind.LIST_PROMPTS))["prompts"]


@pytest.mark.parametrize("make_server", SERVERS.values(), ids=SERVERS.keys())
async def test_resources_and_prompts_of_an_mcp_server_are_offered_beside_the_classes(
    make_server: Any,
) -> None:
    server = make_server({})
    server.resource("server://notes/{name}")(note)
    server.resource("server://all")(everything)
    server.prompt()(ask)

    class Served(Library):
        def __init__(self) -> None:
            super().__init__(mcp_server=server)

    async with opened(Served) as caller:
        listed = await caller.do(Kind.LIST_RESOURCES)
        assert [each["uri"] for each in listed["resources"]] == [
            "server://all",
            "library://catalogue",
        ]
        assert [each["uri"] for each in listed["templates"]] == [
            "server://notes/{name}",
            "library://books/{title}",
        ]
        for uri, text in {
            "server://notes/a": "note a",
            "library://books/b": "the text of b",
        }.items():
            read = await caller.do(Kind.READ_RESOURCE, ResourceQuery(uri=uri))
            assert read["contents"][0]["text"] == text
        with pytest.raises(ResourceNotFoundError):
            await caller.do(Kind.READ_RESOURCE, ResourceQuery(uri="nowhere://x"))
        prompts = await caller.do(Kind.LIST_PROMPTS)
        assert [each["name"] for each in prompts["prompts"]] == ["ask", "review"]
        said = await caller.do(Kind.GET_PROMPT, PromptQuery(name="ask", arguments={"topic": "x"}))
        assert said["messages"][0]["content"]["text"] == "tell me of x"
        for query in (PromptQuery(name="ask"), PromptQuery(name="nosuch")):
            with pytest.raises(InvalidArgumentsError):
                await caller.do(Kind.GET_PROMPT, query)


def note(name: str) -> str:
    return f"note {name}"


def everything() -> str:
    return "all notes"


def ask(topic: str) -> str:
    """Asks."""
    return f"tell me of {topic}"
