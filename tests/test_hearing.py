"""What is heard of an operation before its reply."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import Any, ClassVar

import pytest

from openenv_grpc.engine import EngineSettings
from openenv_grpc.errors import ClientCapabilityError
from openenv_grpc.hearing import MAX_WAITING, Asked, Hearing, Interview, Withdrawn, converse, hear
from openenv_grpc.mcp_environment import MCPEnvironment
from openenv_grpc.operations import Kind, PromptQuery, Reply
from openenv_grpc.tools import (
    ToolLog,
    ToolNotice,
    ToolProgress,
    ToolQuestion,
    report_progress,
    tool,
)
from openenv_grpc.types import Observation
from tests.engine.talking import Caller, opened
from tests.environments import Curious, Library, Named
from tests.mcp_packages import SERVERS, context_class

STEPS = [
    ToolProgress(progress=1, total=2, message="step 1"),
    ToolProgress(progress=2, total=2, message="step 2"),
    ToolLog(level="warning", data={"steps": 2}, logger="work"),
]


async def heard(caller: Caller, name: str, **arguments: Any) -> list[ToolNotice | Reply]:
    operation = caller.operation(Kind.CALL_TOOL, (name, arguments))
    async with asyncio.timeout(30), aclosing(hear(caller.session, operation)) as telling:
        return [told async for told in telling]


@pytest.mark.parametrize("isolation", ["thread", "inline", "process"])
@pytest.mark.parametrize("name", ["work", "work_later"])
async def test_what_a_tool_tells_is_heard_in_order_and_then_its_reply(
    name: str, isolation: str
) -> None:
    settings = EngineSettings(process_pool_size=0)
    async with opened(Library, isolation=isolation, settings=settings) as caller:
        *told, reply = await heard(caller, name, steps=2)
        assert told == STEPS
        assert isinstance(reply, Reply)
        assert b"done" in reply.content
        assert (await caller.do(Kind.CALL_TOOL, (name, {"steps": 2})))["text"].startswith("done")


async def test_a_tool_that_nobody_listens_to_tells_nothing_to_who_listens_to_another() -> None:
    class Two(Library):
        @tool
        def quiet(self) -> str:
            """Works without a word."""
            return "done"

    async with opened(Two) as caller:
        assert len(await heard(caller, "work", steps=1)) == 3
        assert len(await heard(caller, "quiet")) == 1


@pytest.mark.filterwarnings("ignore:The logging capability is deprecated")
@pytest.mark.parametrize("make_server", SERVERS.values(), ids=SERVERS.keys())
async def test_tools_of_an_mcp_server_are_heard_too(make_server: Any) -> None:
    server = make_server({})

    class Served(MCPEnvironment):
        def __init__(self) -> None:
            super().__init__(mcp_server=server)

        def reset(self, **kwargs: Any) -> Observation:
            return Observation()

    async def work(ctx: Any) -> str:
        await ctx.report_progress(1, 2, "half")
        await ctx.info("halfway")
        return "done"

    work.__annotations__["ctx"] = context_class(server)
    server.tool(name="work")(work)
    async with opened(Served) as caller:
        *told, reply = await heard(caller, "work")
        assert isinstance(reply, Reply)
        assert b"done" in reply.content, reply
        assert told[0] == ToolProgress(progress=1, total=2, message="half")
        assert isinstance(told[1], ToolLog)


async def test_leaving_early_cancels_the_operation() -> None:
    started = asyncio.Event()
    ended: list[str] = []

    class Endless(MCPEnvironment):
        SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True

        def reset(self, **kwargs: Any) -> Observation:
            return Observation()

        @tool
        def work(self) -> str:
            """Reports, and goes on."""
            report_progress(1)
            ended.append("returned")
            return "done"

    async with opened(Endless) as caller:
        operation = caller.operation(Kind.CALL_TOOL, ("work", {}))
        async with asyncio.timeout(30), aclosing(hear(caller.session, operation)) as telling:
            async for _ in telling:
                started.set()
                break
        assert started.is_set()
        assert (await caller.do(Kind.CALL_TOOL, ("work", {})))["text"] == "done"


async def test_of_many_notices_the_latest_are_kept() -> None:
    hearing = Hearing[ToolNotice]()
    for number in range(MAX_WAITING + 5):
        hearing.tell(ToolProgress(progress=number))
    hearing.answer(Reply(None, b""))  # type: ignore[arg-type]
    told = [each async for each in hearing.heard()]
    assert len(told) == MAX_WAITING + 1
    assert told[0] == ToolProgress(progress=5)


async def test_of_many_notices_none_takes_the_place_of_what_is_asked() -> None:
    interview = Interview(frozenset({"roots"}))
    asked = ToolQuestion(key="roots", method="roots/list", params={})
    interview.tell(ToolProgress(progress=-1))
    interview.ask([asked])
    asked.answered.cancel()
    for number in range(MAX_WAITING + 5):
        interview.tell(ToolProgress(progress=number))
    interview.answer(Reply(None, b""))  # type: ignore[arg-type]
    told = [each async for each in interview.heard()]
    assert len(told) == MAX_WAITING + 1
    assert told[:2] == [Asked([asked]), Withdrawn(asked)]
    assert told[2] == ToolProgress(progress=7)


ANSWERS = {
    "elicitation/create": {"action": "accept", "content": {"name": "Ada"}},
    "sampling/createMessage": {
        "role": "assistant",
        "content": {"type": "text", "text": "Hello"},
        "model": "small",
    },
    "roots/list": {"roots": [{"uri": "file:///work"}]},
}
ALL = frozenset({"elicitation", "sampling", "roots"})


async def conversed(caller: Caller, name: str, interview: Interview) -> tuple[list[list[str]], Any]:
    """Answers all that a tool asks; returns what it asked at a time, and its reply."""
    operation = caller.operation(Kind.CALL_TOOL, (name, {}))
    asked: list[list[str]] = []
    async with (
        asyncio.timeout(30),
        aclosing(converse(caller.session, operation, interview)) as telling,
    ):
        async for told in telling:
            if isinstance(told, Reply):
                return asked, told
            assert isinstance(told, Asked)
            asked.append([question.key for question in told.questions])
            for question in told.questions:
                question.answer(ANSWERS[question.method])
    raise AssertionError("there was no reply")


@pytest.mark.parametrize("isolation", ["thread", "process"])
@pytest.mark.parametrize(
    ("name", "keys", "text"),
    [
        ("greet", [["name"]], "hello Ada"),
        ("greet_later", [["name"]], "hello Ada"),
        ("greet_twice", [["first"], ["second"]], "hello Ada hello Ada"),
        (
            "ask_all",
            [["elicitation", "sampling", "roots"]],
            "Hello, hello Ada: file:///work",
        ),
    ],
)
async def test_a_tool_gets_the_answers_to_what_it_asks(
    name: str, keys: list[list[str]], text: str, isolation: str
) -> None:
    settings = EngineSettings(process_pool_size=0)
    async with opened(Curious, isolation=isolation, settings=settings) as caller:
        for _ in range(2):
            asked, reply = await conversed(caller, name, Interview(ALL))
            assert asked == keys
            assert json.loads(reply.content)["text"] == text


@pytest.mark.filterwarnings("ignore:.*deprecated")
@pytest.mark.parametrize("make_server", SERVERS.values(), ids=SERVERS.keys())
async def test_a_tool_of_an_mcp_server_gets_the_answers_to_what_it_asks(make_server: Any) -> None:
    server = make_server({})

    class Served(MCPEnvironment):
        def __init__(self) -> None:
            super().__init__(mcp_server=server)

        def reset(self, **kwargs: Any) -> Observation:
            return Observation()

    async def greet(ctx: Any) -> str:
        return f"hello {(await ctx.elicit('Who are you?', Named)).data.name}"

    greet.__annotations__["ctx"] = context_class(server)
    server.tool(name="greet")(greet)
    async with opened(Served) as caller:
        for _ in range(2):
            asked, reply = await conversed(caller, "greet", Interview(ALL))
            assert asked == [["elicitation"]]
            assert json.loads(reply.content)["text"] == "hello Ada"


@pytest.mark.parametrize("isolation", ["thread", "process"])
async def test_a_tool_that_waits_no_longer_leaves_the_session_usable(isolation: str) -> None:
    settings = EngineSettings(process_pool_size=0)
    async with opened(Curious, isolation=isolation, settings=settings) as caller:
        operation = caller.operation(Kind.CALL_TOOL, ("impatient", {}))
        conversation = converse(caller.session, operation, Interview(ALL))
        async with asyncio.timeout(30), aclosing(conversation) as telling:
            asked, *withdrawn, reply = [told async for told in telling]
        assert isinstance(reply, Reply)
        assert b"did not answer" in reply.content
        assert isinstance(asked, Asked)
        here = isolation == "thread"
        assert withdrawn == ([Withdrawn(asked.questions[0])] if here else [])
        asked.questions[0].answer(ANSWERS["elicitation/create"])
        _, reply = await conversed(caller, "greet", Interview(ALL))
        assert b"hello Ada" in reply.content


async def test_who_hangs_up_ends_the_waiting_of_a_tool_that_blocks() -> None:
    async with opened(Curious) as caller:
        interview = Interview(ALL)
        operation = caller.operation(Kind.CALL_TOOL, ("modest", {}))
        async with (
            asyncio.timeout(30),
            aclosing(converse(caller.session, operation, interview)) as telling,
        ):
            assert isinstance(await anext(telling), Asked)
            interview.hang_up("the client is gone")
            reply = await anext(telling)
        assert isinstance(reply, Reply)
        assert b"nobody answers: the client is gone" in reply.content


async def test_what_a_client_leaves_unanswered_is_not_logged_as_the_environments_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with opened(Curious) as caller, asyncio.timeout(30):
        interview = Interview(ALL)
        operation = caller.operation(Kind.GET_PROMPT, PromptQuery(name="letter"))
        async with aclosing(converse(caller.session, operation, interview)) as telling:
            assert isinstance(await anext(telling), Asked)
            interview.hang_up("the client is gone")
            reply = await anext(telling)
        assert isinstance(reply, Reply)
        assert reply.error is not None
        assert "the client is gone" in reply.error.message
    assert "environment failed" not in caplog.text


@pytest.mark.parametrize("isolation", ["thread", "process"])
async def test_closing_the_session_does_not_wait_for_an_answer(isolation: str) -> None:
    settings = EngineSettings(process_pool_size=0)
    async with (
        opened(Curious, isolation=isolation, settings=settings) as caller,
        asyncio.timeout(60),
    ):
        operation = caller.operation(Kind.CALL_TOOL, ("modest", {}))
        conversation = converse(caller.session, operation, Interview(ALL))
        async with aclosing(conversation) as telling:
            assert isinstance(await anext(telling), Asked)
            closing = asyncio.create_task(caller.close())
            reply = await anext(telling)
            assert isinstance(reply, Reply)
            assert b"the session is being closed" in reply.content
            await closing


async def test_leaving_the_conversation_frees_the_thread_that_waits() -> None:
    async with opened(Curious) as caller, asyncio.timeout(30):
        operation = caller.operation(Kind.CALL_TOOL, ("greet", {}))
        async with aclosing(converse(caller.session, operation, Interview(ALL))) as telling:
            assert isinstance(await anext(telling), Asked)
        assert (await caller.do(Kind.CALL_TOOL, ("count", {})))["text"] == "1"


async def test_a_tool_whose_caller_has_no_client_is_refused_and_may_make_do() -> None:
    async with opened(Curious) as caller:
        with pytest.raises(ClientCapabilityError, match="elicitation") as refused:
            await caller.do(Kind.CALL_TOOL, ("greet", {}))
        assert refused.value.metadata == {"capability": "elicitation"}
        modest = await caller.do(Kind.CALL_TOOL, ("modest", {}))
        assert modest["text"] == "hello, whoever you are"


async def test_an_environment_on_the_event_loop_cannot_ask() -> None:
    async with opened(Curious, isolation="inline") as caller:
        asked, reply = await conversed(caller, "greet_later", Interview(ALL))
        assert asked == []
        assert b"cannot ask" in reply.content
