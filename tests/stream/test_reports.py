"""What an environment's code tells while it runs, on a stream."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from openenv_grpc import MCPEnvironment, report_log, report_progress, tool
from openenv_grpc.engine import EnvironmentDefinition, SessionManager
from openenv_grpc.operations import Kind, Operation
from openenv_grpc.sessions import ask
from openenv_grpc.stream import StreamLimits
from openenv_grpc.types import Action, Observation
from openenv_grpc.v1 import session_pb2
from openenv_grpc.wire.tool_messages import ToolCodec
from tests.environments import Count, Countdown, Counted, Gates, Library
from tests.stream.pipe import Pipe, closing, opening, piped, resetting, stepping

KEY = "a key of the client's making"
LIMIT_S = 10
NO_BEATS = StreamLimits(progress_interval_s=3600)


class Telling(Countdown):
    """Tells of itself, and not in tools alone."""

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any
    ) -> Counted:
        report_progress(1, 2, "dealing")
        return super().reset(seed, episode_id, **kwargs)

    def step(self, action: Count, timeout_s: float | None = None) -> Counted:
        report_log("moved", level="debug")
        return super().step(action, timeout_s)


class Waiting(MCPEnvironment):
    """Its tool tells of itself on both sides of a wait."""

    def __init__(self, gates: Gates) -> None:
        super().__init__()
        self._gates = gates

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any
    ) -> Observation:
        return Observation()

    @tool
    def wait(self) -> str:
        """Waits."""
        report_progress(1)
        self._gates.entered.set()
        self._gates.leave.wait(LIMIT_S)
        report_progress(2)
        return "waited"

    @tool
    def log(self, length: int) -> str:
        """Logs something long."""
        report_log("x" * length)
        return "logged"


@pytest.fixture
def gates() -> Gates:
    return Gates()


@pytest.fixture
async def host(gates: Gates) -> AsyncIterator[SessionManager]:
    definitions = [
        EnvironmentDefinition(
            factory=Library,
            action_type=Action,
            observation_type=Observation,
            isolation=isolation,
            name=f"Library {isolation}",
        )
        for isolation in ("thread", "process", "inline", "shared")
    ]
    definitions += [
        EnvironmentDefinition(
            factory=Telling, action_type=Count, observation_type=Counted, name="Telling"
        ),
        EnvironmentDefinition(
            factory=functools.partial(Waiting, gates),
            action_type=Action,
            observation_type=Observation,
            name="Waiting",
        ),
    ]
    async with SessionManager(definitions) as manager:
        yield manager
        gates.leave.set()


@pytest.fixture
async def pipe(host: SessionManager) -> AsyncIterator[Pipe]:
    async with piped(host, NO_BEATS) as pipe:
        yield pipe


def asking(environment: str, *, progress: bool = True, window: bool = False) -> Any:
    operation = opening(environment=environment)
    operation.open.progress = operation.open.reports = progress
    if window:
        operation.open.resume_key = KEY
        operation.open.resume_window.seconds = 60
    return operation


def calling(name: str, request_id: int = 2, session: int = 1, **arguments: Any) -> Any:
    operation = session_pb2.Operation(session=session, request_id=request_id)
    operation.call_tool.tool_name = name
    operation.call_tool.arguments.json = json.dumps(arguments)
    return operation


async def until_answered(pipe: Pipe, request_id: int = 2) -> list[session_pb2.Outcome]:
    """Returns what is told of an operation, and its outcome."""
    told = [await pipe.outcome()]
    while told[-1].HasField("progress"):
        told.append(await pipe.outcome())
    assert {(each.session, each.request_id) for each in told} == {(1, request_id)}
    return told


@pytest.mark.parametrize("name", ["work", "work_later"])
@pytest.mark.parametrize("isolation", ["thread", "process", "inline", "shared"])
async def test_what_a_tool_tells_comes_in_its_order_and_before_its_outcome(
    pipe: Pipe, isolation: str, name: str
) -> None:
    assert (await pipe.ask(asking(f"Library {isolation}"))).HasField("open")
    for request_id in (2, 3):
        pipe.send(calling(name, request_id, steps=2))
        first, second, log, outcome = await until_answered(pipe, request_id)
        for number, told in ((1, first), (2, second)):
            assert told.progress.message == told.progress.tool_progress.message == f"step {number}"
            assert told.progress.tool_progress.progress == number
            assert told.progress.tool_progress.total == 2
            assert told.progress.HasField("elapsed_time")
        assert (log.progress.tool_log.level, log.progress.tool_log.logger) == ("warning", "work")
        assert json.loads(log.progress.tool_log.data.json) == {"steps": 2}
        assert outcome.call_tool.result.contents[0].text.startswith("done")


async def test_a_reset_and_a_step_tell_of_themselves_too(pipe: Pipe) -> None:
    await pipe.ask(asking("Telling"))
    pipe.send(resetting(request_id=2), stepping(request_id=3))
    dealing, reset = await until_answered(pipe)
    assert dealing.progress.message == "dealing"
    assert reset.HasField("reset_episode")
    moved, step = await until_answered(pipe, 3)
    assert moved.progress.tool_log.level == "debug"
    assert step.HasField("step")


@pytest.mark.parametrize("progress", [False, True])
async def test_who_asks_for_no_reports_is_told_nothing(pipe: Pipe, progress: bool) -> None:
    asked = asking("Library thread", progress=False)
    asked.open.progress = progress
    await pipe.ask(asked)
    assert (await pipe.ask(calling("work", steps=2))).HasField("call_tool")


async def test_a_report_larger_than_the_client_takes_is_left_out(pipe: Pipe) -> None:
    hello = session_pb2.ClientHello(name="test", max_receive_size_bytes=2**16)
    pipe.send_bytes(session_pb2.ConnectRequest(client=hello).SerializeToString())
    assert (await pipe.response()).HasField("server")
    await pipe.ask(asking("Waiting"))
    pipe.send(calling("log", length=2**17), calling("log", 3, length=10))
    assert len(await until_answered(pipe)) == 1
    assert len(await until_answered(pipe, 3)) == 2


async def test_reports_are_left_out_while_the_client_does_not_read(host: SessionManager) -> None:
    async with (
        piped(host, StreamLimits(max_unsent_bytes=1, progress_interval_s=3600)) as pipe,
        asyncio.timeout(LIMIT_S),
    ):
        session_id = (await pipe.ask(asking("Library thread"))).open.session_id
        blocked, write_at_once = asyncio.Event(), pipe.write

        async def write(data: bytes) -> None:
            await blocked.wait()
            await write_at_once(data)

        pipe.write = write  # type: ignore[method-assign]
        pipe.send(calling("work", steps=50))
        while host.find(session_id).info().idle_s is not None:
            await asyncio.sleep(0)  # until it is read
        listing = Operation(kind=Kind.LIST_TOOLS, codec=ToolCodec())
        await ask(host.find(session_id), listing)  # in its turn: the call is over
        blocked.set()
        told = await until_answered(pipe)
    assert len(told) in (2, 3)  # what was being written, and what waited for that
    assert told[-1].HasField("call_tool")


async def test_who_takes_the_session_up_and_asks_again_is_told_what_is_told_from_then_on(
    host: SessionManager, gates: Gates
) -> None:
    async with (
        piped(host, NO_BEATS) as first,
        piped(host, NO_BEATS) as second,
        asyncio.timeout(LIMIT_S),
    ):
        opened = await first.ask(asking("Waiting", window=True))
        first.send(calling("wait"))
        assert (await first.outcome()).progress.tool_progress.progress == 1
        await asyncio.to_thread(gates.entered.wait, LIMIT_S)
        attach = session_pb2.Operation(session=1, control_id=9)
        attach.attach.session_id, attach.attach.resume_key = opened.open.session_id, KEY
        attach.attach.progress = attach.attach.reports = True
        second.send(attach, calling("wait"))
        assert (await second.outcome()).HasField("attach")
        assert (await first.outcome()).event.HasField("session_lost")
        gates.leave.set()
        report, outcome = await until_answered(second)
        assert report.progress.tool_progress.progress == 2
        assert outcome.call_tool.result.contents[0].text == "waited"
        first.end()
        await first.served()


async def test_a_close_is_answered_after_what_was_told(pipe: Pipe) -> None:
    await pipe.ask(asking("Library thread"))
    pipe.send(calling("work", steps=3), closing(request_id=3))
    assert len(await until_answered(pipe)) == 5
    assert (await until_answered(pipe, 3))[-1].HasField("close")
