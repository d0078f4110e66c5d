"""What a stream says without being asked: progress, tool calls, that the server drains."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from openenv_grpc.engine import EnvironmentDefinition, SessionManager
from openenv_grpc.errors import DeadlineExceededError, OpenEnvError
from openenv_grpc.operations import Kind, Operation
from openenv_grpc.sessions import ask
from openenv_grpc.stream import StreamLimits
from openenv_grpc.tools import CallToolAction
from openenv_grpc.types import Action, Observation
from openenv_grpc.v1 import error_pb2, session_pb2, tool_pb2
from openenv_grpc.wire.tool_messages import ToolCodec
from tests.environments import Count, Countdown, Counted, Gates, Slow, Toolbox, ToolSteps
from tests.stream.pipe import Pipe, closing, opening, piped, reading, stepping

KEY = "a key of the client's making"
LIMIT_S = 10


class SlowToBuild(Countdown):
    """Its constructor waits for its gates."""

    def __init__(self, gates: Gates) -> None:
        super().__init__()
        gates.leave.wait(LIMIT_S)


class SlowToClose(Countdown):
    """Its `close` waits for its gates."""

    def __init__(self, gates: Gates) -> None:
        super().__init__()
        self.gates = gates

    def close(self) -> None:
        self.gates.leave.wait(LIMIT_S)


@pytest.fixture
def gates() -> Gates:
    return Gates()


@pytest.fixture
async def host(gates: Gates) -> AsyncIterator[SessionManager]:
    gated = {
        factory.__name__: functools.partial(factory, gates)
        for factory in (Slow, SlowToBuild, SlowToClose)
    }
    definitions = [
        EnvironmentDefinition(
            factory=factory, action_type=Count, observation_type=Counted, name=name
        )
        for name, factory in gated.items()
    ]
    definitions += [
        EnvironmentDefinition(
            factory=factory,
            action_type=action_type,
            observation_type=Observation,
            isolation=isolation,
            name=f"{factory.__name__} {isolation}",
        )
        for factory, action_type in ((Toolbox, Action), (ToolSteps, CallToolAction))
        for isolation in ("thread", "process", "inline")
    ]
    async with SessionManager(definitions) as manager:
        yield manager
        gates.leave.set()


@pytest.fixture
async def pipe(host: SessionManager) -> AsyncIterator[Pipe]:
    async with piped(host, StreamLimits(progress_interval_s=0.05)) as pipe:
        yield pipe


def watching(
    environment: str = "Toolbox thread",
    session: int = 1,
    *,
    progress: bool = False,
    events: bool = False,
) -> session_pb2.Operation:
    operation = opening(session, environment=environment)
    operation.open.progress, operation.open.events = progress, events
    return operation


def resumable(environment: str, **asked: bool) -> session_pb2.Operation:
    operation = watching(environment, **asked)
    operation.open.resume_key = KEY
    operation.open.resume_window.seconds = 60
    return operation


def attaching(session_id: str, **asked: bool) -> session_pb2.Operation:
    operation = session_pb2.Operation(session=5, control_id=9)
    operation.attach.CopyFrom(
        session_pb2.Attach(session_id=session_id, resume_key=KEY, **asked)  # type: ignore[arg-type]
    )
    return operation


async def call(
    host: SessionManager,
    session_id: str,
    name: str,
    *,
    timeout_s: float | None = None,
    **arguments: Any,
) -> bytes:
    """Calls a tool as an agent does; returns what the agent is answered."""
    request = tool_pb2.CallToolRequest(session_id=session_id, tool_name=name)
    request.arguments.json = json.dumps(arguments)
    operation = Operation(
        kind=Kind.CALL_TOOL, codec=ToolCodec(), payload=request, timeout_s=timeout_s
    )
    return (await ask(host.find(session_id), operation)).written()


# Progress


async def test_a_long_operation_is_told_at_a_beat_until_its_outcome(
    pipe: Pipe, gates: Gates
) -> None:
    await pipe.ask(watching("Slow", progress=True))
    pipe.send(stepping(request_id=2, action='{"text":"wait"}'), reading(request_id=3))
    beats = [await pipe.outcome() for _ in range(8)]
    assert {beat.WhichOneof("kind") for beat in beats} == {"progress"}
    assert {(beat.session, beat.request_id) for beat in beats} == {(1, 2), (1, 3)}
    elapsed = [beat.progress.elapsed_time.ToNanoseconds() for beat in beats if beat.request_id == 2]
    assert elapsed == sorted(set(elapsed))
    assert elapsed[0] > 0
    gates.leave.set()
    async with asyncio.timeout(LIMIT_S):
        while (outcome := await pipe.outcome()).HasField("progress"):
            pass
    assert outcome.HasField("step")


@pytest.mark.parametrize("environment", ["SlowToBuild", "SlowToClose"])
async def test_the_first_and_the_last_operation_have_beats_too(
    pipe: Pipe, gates: Gates, environment: str
) -> None:
    pipe.send(watching(environment, progress=True), stepping(request_id=2), closing(request_id=3))
    kinds: list[str | None] = []
    while "progress" not in kinds:
        kinds.append((await pipe.outcome()).WhichOneof("kind"))
    gates.leave.set()
    while "close" not in kinds:
        kinds.append((await pipe.outcome()).WhichOneof("kind"))
    assert [kind for kind in kinds if kind != "progress"] == ["open", "step", "close"]


async def test_who_asks_for_no_progress_gets_none(pipe: Pipe, gates: Gates) -> None:
    pipe.send(watching("Slow", 1), watching("Slow", 2, progress=True))
    await pipe.outcome(), await pipe.outcome()
    wait = '{"text":"wait"}'
    pipe.send(stepping(1, 2, action=wait), stepping(2, 2, action=wait))
    assert {(await pipe.outcome()).session for _ in range(5)} == {2}


async def test_progress_can_be_asked_for_when_a_session_is_taken_up(
    host: SessionManager, gates: Gates
) -> None:
    limits = StreamLimits(progress_interval_s=0.05)
    async with piped(host, limits) as first, piped(host, limits) as second:
        opened = await first.ask(resumable("Slow", progress=True))
        first.send(stepping(request_id=2, action='{"text":"wait"}'))
        assert (await first.outcome()).HasField("progress")
        second.send(attaching(opened.open.session_id, progress=True))
        assert (await second.outcome()).HasField("attach")
        assert (await second.outcome()).request_id == 2
        while (outcome := await first.outcome()).HasField("progress"):
            pass
        assert outcome.event.session_lost.reason == error_pb2.REASON_SESSION_TAKEN_OVER


async def test_a_stream_that_beats_ends_when_its_client_ends_it(
    host: SessionManager, gates: Gates
) -> None:
    async with piped(host, StreamLimits(progress_interval_s=0.05)) as pipe:
        await pipe.ask(watching("Slow", progress=True))
        pipe.end()
        await pipe.served()


# Tool calls


@pytest.mark.parametrize("isolation", ["thread", "inline", "process"])
async def test_a_trainer_that_watches_is_told_of_tool_calls(
    host: SessionManager, pipe: Pipe, isolation: str
) -> None:
    session_id = (await pipe.ask(watching(f"Toolbox {isolation}", events=True))).open.session_id
    answer = tool_pb2.CallToolResponse.FromString(await call(host, session_id, "add", a=2, b=3))
    event = (await pipe.outcome()).event
    called = event.tool_called
    assert event.HasField("event_time")
    assert (called.tool_name, json.loads(called.arguments.json)) == ("add", {"a": 2, "b": 3})
    assert called.result == answer.result
    assert (called.failed, called.HasField("reward"), called.terminated) == (False, False, False)

    told = await call(host, session_id, "submit", answer="42")
    called = (await pipe.outcome()).event.tool_called
    assert (called.reward, called.terminated, called.truncated) == (1.0, True, False)
    assert b"reward" not in told


@pytest.mark.parametrize("isolation", ["thread", "process"])
async def test_calls_that_fail_are_told_with_what_they_ended_with(
    host: SessionManager, pipe: Pipe, isolation: str
) -> None:
    session_id = (await pipe.ask(watching(f"Toolbox {isolation}", events=True))).open.session_id
    await call(host, session_id, "fail", reason="no luck")
    failed = (await pipe.outcome()).event.tool_called
    assert failed.failed
    assert failed.result.contents[0].text.endswith("no luck")
    with pytest.raises(OpenEnvError):
        await call(host, session_id, "dance", steps=2)
    missing = (await pipe.outcome()).event.tool_called
    assert (missing.tool_name, missing.failed) == ("dance", True)
    assert missing.error.reason == error_pb2.REASON_TOOL_NOT_FOUND
    assert not missing.HasField("result")


async def test_a_call_whose_time_passes_is_told(
    host: SessionManager, pipe: Pipe, gates: Gates
) -> None:
    session_id = (await pipe.ask(watching("Slow", events=True))).open.session_id
    pipe.send(stepping(request_id=2, action='{"text":"wait"}'))
    await asyncio.to_thread(gates.entered.wait, LIMIT_S)
    with pytest.raises(DeadlineExceededError):
        await call(host, session_id, "add", a=1, timeout_s=0.05)  # behind the step
    called = (await pipe.outcome()).event.tool_called
    assert (called.tool_name, json.loads(called.arguments.json)) == ("add", {"a": 1})
    assert called.error.reason == error_pb2.REASON_DEADLINE_EXCEEDED


@pytest.mark.parametrize("isolation", ["thread", "process"])
async def test_calls_that_are_steps_are_told_with_their_reward(
    host: SessionManager, pipe: Pipe, isolation: str
) -> None:
    session_id = (await pipe.ask(watching(f"ToolSteps {isolation}", events=True))).open.session_id
    await call(host, session_id, "say", words="hello")
    called = (await pipe.outcome()).event.tool_called
    assert (called.tool_name, called.HasField("result"), called.reward) == ("say", True, 0.25)


async def test_a_call_of_the_trainers_own_is_told_once_and_repeated_as_it_was(pipe: Pipe) -> None:
    await pipe.ask(watching("Toolbox thread", events=True))
    operation = session_pb2.Operation(session=1, request_id=2)
    operation.call_tool.tool_name = "add"
    operation.call_tool.arguments.json = '{"a":1,"b":2}'
    first = await pipe.ask(operation)
    assert first.call_tool.result.contents[0].text == "3"
    called = (await pipe.outcome()).event.tool_called
    assert (called.tool_name, called.result) == ("add", first.call_tool.result)
    assert await pipe.ask(operation) == first  # a repeat, from the record
    assert (await pipe.ask(reading(request_id=3))).WhichOneof("kind") == "get_state"


async def test_who_asks_for_no_events_gets_none(host: SessionManager, pipe: Pipe) -> None:
    session_id = (await pipe.ask(watching())).open.session_id
    await call(host, session_id, "add", a=2, b=3)
    host.drain()
    assert (await pipe.ask(reading(request_id=2))).HasField("get_state")


async def test_events_can_be_asked_for_when_a_session_is_taken_up(host: SessionManager) -> None:
    async with piped(host) as first, piped(host) as second:
        opened = await first.ask(resumable("Toolbox thread", events=True))
        session_id = opened.open.session_id
        await second.ask(attaching(session_id, events=True))
        await call(host, session_id, "add", a=2, b=3)
        assert (await second.outcome()).event.tool_called.tool_name == "add"
        lost = (await first.outcome()).event.session_lost
        assert lost.reason == error_pb2.REASON_SESSION_TAKEN_OVER


async def test_a_call_beyond_the_clients_limit_is_told_without_its_contents(
    host: SessionManager, pipe: Pipe
) -> None:
    hello = session_pb2.ConnectRequest()
    hello.client.max_receive_size_bytes = 4096
    pipe.send_bytes(hello.SerializeToString())
    await pipe.response()
    session_id = (await pipe.ask(watching(events=True))).open.session_id
    await call(host, session_id, "submit", answer="x" * 10_000)
    called = (await pipe.outcome()).event.tool_called
    assert (called.tool_name, called.reward, called.cut) == ("submit", 0.0, True)
    assert not called.HasField("arguments")


async def test_calls_are_left_out_while_the_client_does_not_read(host: SessionManager) -> None:
    async with piped(host, StreamLimits(max_unsent_bytes=1)) as pipe:
        session_id = (await pipe.ask(watching(events=True))).open.session_id
        writing, blocked = asyncio.Event(), asyncio.Event()
        write_at_once = pipe.write

        async def write(data: bytes) -> None:
            writing.set()
            await blocked.wait()
            await write_at_once(data)

        pipe.write = write  # type: ignore[method-assign]
        await call(host, session_id, "add", a=1, b=1)
        async with asyncio.timeout(LIMIT_S):
            await writing.wait()
        for number in range(5):
            await call(host, session_id, "add", a=number, b=2)
        blocked.set()
        sums = [(await pipe.outcome()).event.tool_called.arguments.json for _ in range(2)]
        assert [json.loads(each)["b"] for each in sums] == [1, 2]
        assert (await pipe.ask(reading(request_id=2))).HasField("get_state")


# Draining


@pytest.mark.parametrize("limit_s", [None, 30.0])
async def test_a_client_that_takes_it_is_told_once_that_the_server_drains(
    host: SessionManager, pipe: Pipe, limit_s: float | None
) -> None:
    hello = session_pb2.ConnectRequest()
    hello.client.features.append("draining")
    pipe.send_bytes(hello.SerializeToString())
    await pipe.response()
    await pipe.ask(watching(events=True))
    host.drain(limit_s)
    told = await pipe.outcome()
    assert (told.session, told.event.WhichOneof("kind")) == (-1, "draining")
    remaining = told.event.draining.remaining_time
    assert told.event.draining.HasField("remaining_time") == (limit_s is not None)
    assert limit_s is None or 0 < remaining.ToNanoseconds() / 1e9 <= limit_s
    assert (await pipe.ask(reading(request_id=2))).HasField("get_state")


async def test_who_watches_a_session_is_told_that_the_server_drains(
    host: SessionManager, pipe: Pipe
) -> None:
    await pipe.ask(watching(events=True))
    host.drain()
    assert (await pipe.outcome()).event.HasField("draining")
