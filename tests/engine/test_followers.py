"""Who follows a session is told what is done in it."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import pytest

from openenv_grpc.engine import EngineSettings
from openenv_grpc.operations import Kind, Operation
from openenv_grpc.tools import Change, report_changed, report_updated
from openenv_grpc.types import Observation
from tests.engine.talking import Caller, opened
from tests.environments import Count, Countdown, Counted, Curious

LEARNED = [Change(listed="tools"), Change(listed="prompts"), Change(uri="curious://calls")]


class Recorder:
    """Writes down what it is told. Implements `Follower`."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.news = asyncio.Event()
        self.over = asyncio.Event()

    def changed(self, change: Change, operation: Operation) -> None:
        self.told.append(change)
        self.news.set()

    def acted(self, operation: Operation) -> None:
        self.told.append(operation.kind)
        self.news.set()

    def ended(self) -> None:
        self.over.set()

    async def until(self, count: int) -> list[Any]:
        async with asyncio.timeout(30):
            while len(self.told) < count:
                self.news.clear()
                await self.news.wait()
        return self.told


class Talkative(Countdown):
    """Tells of changes in its steps."""

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True

    def step(self, action: Count, timeout_s: float | None = None, **kwargs: Any) -> Counted:
        report_updated("count://left")
        return super().step(action, timeout_s)


async def followed(caller: Caller) -> Recorder:
    recorder = Recorder()
    caller.session.follow(recorder)
    return recorder


@pytest.mark.parametrize("isolation", ["thread", "inline", "process"])
async def test_changes_are_told_in_order_from_wherever_the_environment_runs(isolation: str) -> None:
    settings = EngineSettings(process_pool_size=0)
    async with opened(Curious, isolation=isolation, settings=settings) as caller:
        recorder = await followed(caller)
        await caller.do(Kind.CALL_TOOL, ("learn", {}))
        told = await recorder.until(4)
        assert [each for each in told if each is not Kind.CALL_TOOL] == LEARNED


async def test_resets_and_steps_are_told_and_what_they_change() -> None:
    async with opened(Talkative) as caller:
        recorder = await followed(caller)
        await caller.reset()
        await caller.step()
        await caller.do(Kind.STATE)
        told = await recorder.until(3)
        assert told[0] is Kind.RESET
        assert set(told[1:]) == {Change(uri="count://left"), Kind.STEP}


async def test_who_no_longer_follows_is_told_nothing() -> None:
    async with opened(Curious) as caller:
        recorder = Recorder()
        caller.session.follow(recorder)()
        await caller.do(Kind.CALL_TOOL, ("learn", {}))
        assert recorder.told == []


async def test_the_end_of_the_session_is_told_even_to_who_comes_after_it() -> None:
    async with opened(Curious) as caller, asyncio.timeout(30):
        recorder = await followed(caller)
        await caller.do(Kind.CALL_TOOL, ("count", {}))
        await caller.close()
        await recorder.over.wait()
        late = await followed(caller)
        await late.over.wait()


def test_reports_of_changes_do_nothing_where_nobody_follows() -> None:
    report_changed("tools")
    report_updated("any://thing")


def test_a_list_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="not 'toys'"):
        report_changed("toys")  # type: ignore[arg-type]  # that is the point


async def test_making_a_tool_changes_the_list_of_tools() -> None:
    class Growing(Curious):
        def reset(self, **kwargs: Any) -> Observation:
            @self.tool(name="grown")
            def grown() -> str:
                """Is new."""
                return "new"

            return Observation()

    async with opened(Growing) as caller:
        recorder = await followed(caller)
        await caller.reset()
        assert Change(listed="tools") in await recorder.until(2)
