"""One `Connect` stream at its server's end, over the engine and without a transport."""

from __future__ import annotations

import asyncio
import functools
import logging
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from google.protobuf import duration_pb2

from openenv_grpc.engine import EnvironmentDefinition, SessionManager
from openenv_grpc.errors import (
    MessageTooLargeError,
    ProtocolViolationError,
    SessionClosedError,
    UnavailableError,
)
from openenv_grpc.stream import StreamLimits, serve_stream
from openenv_grpc.v1 import error_pb2, session_pb2
from tests.engine.snapshot_environments import Drawing
from tests.environments import Count, Countdown, Counted, Failing, Gates, Slow
from tests.stream.pipe import (
    Pipe,
    cancelling,
    closing,
    opening,
    piped,
    reading,
    resetting,
    stepping,
)


@pytest.fixture
def gates() -> Gates:
    return Gates()


@pytest.fixture
async def host(gates: Gates) -> AsyncIterator[SessionManager]:
    definitions = [
        EnvironmentDefinition(
            factory=factory, action_type=Count, observation_type=Counted, name=name, max_sessions=50
        )
        for name, factory in (("countdown", Countdown), ("failing", Failing), ("saved", Drawing))
    ]
    slow = functools.partial(Slow, gates)
    definitions.append(
        EnvironmentDefinition(
            factory=slow, action_type=Count, observation_type=Counted, name="slow", max_sessions=2
        )
    )
    async with SessionManager(definitions) as manager:
        yield manager
        gates.leave.set()


@pytest.fixture
async def pipe(host: SessionManager) -> AsyncIterator[Pipe]:
    async with piped(host) as pipe:
        yield pipe


def reason(outcome: session_pb2.Outcome) -> str:
    assert outcome.WhichOneof("kind") == "error", outcome
    return error_pb2.Reason.Name(outcome.error.reason).removeprefix("REASON_")


def environment_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("openenv ")]


async def test_a_message_of_too_many_operations_ends_the_stream(host: SessionManager) -> None:
    limits = StreamLimits(max_operations_per_message=3)
    async with piped(host, limits) as pipe:
        await pipe.ask(opening())
        pipe.send(*[stepping(1, request_id) for request_id in range(2, 6)])
        with pytest.raises(MessageTooLargeError, match="more than 3 operations"):
            await pipe.served()
    assert host.sessions() == []


async def test_a_hello_is_answered(pipe: Pipe) -> None:
    request = session_pb2.ConnectRequest()
    request.client.name = "test"
    pipe.send_bytes(request.SerializeToString())
    server = (await pipe.response()).server
    assert server.name == "openenv-grpc"
    assert list(server.environments) == ["countdown", "failing", "saved", "slow"]
    assert list(server.features) == [
        "evaluate", "resume", "agent_access", "queue", "snapshot", "progress", "events", "tools",
    ]  # fmt: skip
    assert server.max_operations_per_session == 16


async def test_a_heartbeat_is_answered_by_an_empty_response(pipe: Pipe) -> None:
    pipe.send_bytes(b"")
    assert await pipe.response() == session_pb2.ConnectResponse()


async def test_an_episode_in_one_message(pipe: Pipe) -> None:
    pipe.send(opening(), resetting(seed=1), stepping(), reading(), closing())
    opened, reset, step, state, closed = [await pipe.outcome() for _ in range(5)]
    assert opened.open.environment == "countdown"
    assert len(opened.open.session_id) == 36
    assert reset.reset_episode.observation.json.startswith('{"metadata":{},"left":3')
    assert not reset.reset_episode.HasField("reward")
    assert (step.step.reward, step.step.terminated, step.request_id) == (1.0, False, 3)
    assert (state.get_state.step_count, state.get_state.episode_id) == (
        1,
        reset.reset_episode.episode_id,
    )
    assert closed.close.step_count == 1


async def test_session_0_needs_no_open_and_the_server_numbers_its_operations(pipe: Pipe) -> None:
    reset = await pipe.ask(resetting(session=0, request_id=0))
    step = await pipe.ask(stepping(session=0, request_id=0))
    assert (reset.session, reset.request_id, reset.WhichOneof("kind")) == (0, 1, "reset_episode")
    assert (step.request_id, step.WhichOneof("kind")) == (2, "step")


async def test_sessions_of_one_stream_do_not_wait_for_each_other(pipe: Pipe, gates: Gates) -> None:
    pipe.send(
        opening(1, environment="slow"),
        resetting(1),
        stepping(1, action='{"text":"wait"}'),
        opening(2),
        resetting(2),
        stepping(2),
    )
    seen: list[tuple[int, str | None]] = []
    while (2, "step") not in seen:
        outcome = await pipe.outcome()
        seen.append((outcome.session, outcome.WhichOneof("kind")))
    assert (1, "step") not in seen
    gates.leave.set()
    while (1, "step") not in seen:
        outcome = await pipe.outcome()
        seen.append((outcome.session, outcome.WhichOneof("kind")))


async def test_a_failed_step_leaves_the_session_open(pipe: Pipe) -> None:
    pipe.send(opening(environment="failing"), resetting(), stepping(action='{"text":"value"}'))
    failed = [await pipe.outcome() for _ in range(3)][2]
    assert reason(failed) == "ENVIRONMENT_FAILED"
    assert failed.error.message == "ValueError: no such move"
    assert failed.error.effect == error_pb2.EFFECT_UNKNOWN
    assert not failed.error.session_lost
    assert (await pipe.ask(stepping(request_id=4))).step.reward == 1.0


def unknown_session() -> session_pb2.Operation:
    return stepping(session=9, request_id=0)


def negative_session() -> session_pb2.Operation:
    return session_pb2.Operation(session=-3, get_state=session_pb2.GetState())


def changed(operation: session_pb2.Operation, change: Callable[[Any], None]) -> Any:
    change(operation)
    return operation


BAD: dict[str, tuple[session_pb2.Operation, str]] = {
    "nothing_to_do": (session_pb2.Operation(session=1, request_id=3), "INVALID_REQUEST"),
    "unknown_session": (unknown_session(), "SESSION_NOT_FOUND"),
    "negative_session": (negative_session(), "INVALID_REQUEST"),
    "negative_id": (stepping(request_id=-1), "INVALID_REQUEST"),
    "id_ahead": (stepping(request_id=9), "OUT_OF_ORDER"),
    "other_content": (stepping(request_id=2), "REQUEST_CONFLICT"),
    "bad_json": (stepping(action="{"), "INVALID_REQUEST"),
    "empty_action": (stepping(action=""), "INVALID_REQUEST"),
    "deep_json": (stepping(action='{"text":' + "[" * 10_000), "INVALID_REQUEST"),
    "not_an_object": (stepping(action="[1]"), "INVALID_ACTION"),
    "unknown_field": (stepping(action='{"zzz":1}'), "INVALID_ACTION"),
    "nan_for_an_integer": (stepping(action='{"by":NaN}'), "INVALID_ACTION"),
    "nan_string_for_an_integer": (stepping(action='{"by":"NaN"}'), "INVALID_ACTION"),
    "no_action": (changed(stepping(), lambda o: o.step.ClearField("action")), "INVALID_REQUEST"),
    "unknown_option": (resetting(request_id=3, options={"json": '{"x":1}'}), "INVALID_REQUEST"),
    "options_no_object": (resetting(request_id=3, options={"json": "[]"}), "INVALID_REQUEST"),
    "seed_twice": (resetting(request_id=3, options={"json": '{"seed":1}'}), "INVALID_REQUEST"),
    "long_episode_id": (resetting(request_id=3, episode_id="x" * 256), "INVALID_REQUEST"),
    "second_open": (opening(1, 3), "INVALID_REQUEST"),
    "no_time": (changed(stepping(), lambda o: o.timeout.FromSeconds(0)), "INVALID_REQUEST"),
    "snapshot": (changed(stepping(), lambda o: o.snapshot.SetInParent()), "NOT_SUPPORTED"),
}


@pytest.mark.parametrize(("operation", "expected"), BAD.values(), ids=BAD.keys())
async def test_a_bad_operation_is_answered_and_the_session_goes_on(
    pipe: Pipe, operation: session_pb2.Operation, expected: str
) -> None:
    pipe.send(opening(), resetting())
    await pipe.outcome(), await pipe.outcome()
    failed = await pipe.ask(operation)
    assert reason(failed) == expected
    assert (failed.session, failed.request_id) == (operation.session, operation.request_id)
    assert failed.error.effect == error_pb2.EFFECT_NONE
    after = await pipe.ask(stepping(request_id=0))
    assert after.WhichOneof("kind") == "step"


async def test_a_refused_action_uses_its_id_and_tells_where(pipe: Pipe) -> None:
    pipe.send(opening(), resetting(), stepping(action='{"by":"many"}'))
    refused = [await pipe.outcome() for _ in range(3)][2]
    assert [violation.path for violation in refused.error.violations] == ["/by"]
    assert (await pipe.ask(stepping(request_id=4))).step.reward == 1.0


async def test_a_repeat_is_answered_from_the_record_and_not_run(pipe: Pipe) -> None:
    pipe.send(opening(), resetting(), stepping())
    first = [await pipe.outcome() for _ in range(3)][2]
    again = await pipe.ask(stepping())
    assert again == first
    assert (await pipe.ask(reading())).get_state.step_count == 1


async def test_an_acknowledged_outcome_is_forgotten(pipe: Pipe) -> None:
    pipe.send(opening(), resetting(), stepping())
    _ = [await pipe.outcome() for _ in range(3)]
    acknowledging = reading()
    acknowledging.acknowledged_id = 3
    await pipe.ask(acknowledging)
    assert reason(await pipe.ask(stepping())) == "OUTCOME_FORGOTTEN"


async def test_an_unknown_environment_is_refused_and_the_number_stays_free(pipe: Pipe) -> None:
    refused = await pipe.ask(opening(environment="chess"))
    assert reason(refused) == "ENVIRONMENT_NOT_FOUND"
    assert (await pipe.ask(opening())).WhichOneof("kind") == "open"


async def test_a_snapshot_is_an_operation_like_others_and_open_goes_on_from_it(
    host: SessionManager,
) -> None:
    saving = session_pb2.Operation(session=1, request_id=3)
    saving.snapshot.SetInParent()
    async with piped(host) as pipe:
        pipe.send(opening(environment="saved"), resetting(options={"json": '{"start":9}'}), saving)
        saved = [await pipe.outcome() for _ in range(3)][2]
        assert saved.request_id == 3
        assert len(saved.snapshot.snapshot_id) == 36
        assert saved.snapshot.size_bytes > 0
        assert await pipe.ask(saving) == saved
        pipe.send(stepping(request_id=4), forking(saved), stepping(2, 2), reading(2, 3))
        outcomes = [await pipe.outcome() for _ in range(4)]
    by_place = {(outcome.session, outcome.request_id): outcome for outcome in outcomes}
    assert by_place[2, 1].open.environment == "saved"
    assert '"left":8' in by_place[2, 2].step.observation.json
    assert by_place[2, 3].get_state.step_count == 1


async def test_a_fork_of_no_snapshot_is_refused_and_the_number_stays_free(pipe: Pipe) -> None:
    unknown = session_pb2.Outcome()
    unknown.snapshot.snapshot_id = "guessed"
    refused = await pipe.ask(forking(unknown))
    assert reason(refused) == "SNAPSHOT_NOT_FOUND"
    assert refused.error.session_lost
    assert (await pipe.ask(opening(2))).WhichOneof("kind") == "open"


def forking(saved: session_pb2.Outcome) -> session_pb2.Operation:
    operation = opening(2)
    operation.open.snapshot_id = saved.snapshot.snapshot_id
    return operation


async def test_a_full_server_refuses_and_says_how_full(pipe: Pipe) -> None:
    for number in (1, 2):
        assert (await pipe.ask(opening(number, environment="slow"))).open.session_id
    third = opening(3, environment="slow")
    third.open.queue_timeout.FromSeconds(0)
    third.open.queue_timeout.SetInParent()
    refused = await pipe.ask(third)
    assert reason(refused) == "CAPACITY_REACHED"
    assert refused.error.metadata["max_sessions"] == "2"
    assert refused.error.session_lost


async def test_cancelling_a_queued_operation_drops_it(pipe: Pipe, gates: Gates) -> None:
    pipe.send(
        opening(environment="slow"),
        resetting(),
        stepping(request_id=3, action='{"text":"wait"}'),
        stepping(request_id=4),
        cancelling(1, 4),
    )
    outcomes = [await pipe.outcome() for _ in range(4)]
    cancelled = next(entry for entry in outcomes if entry.request_id == 4)
    effect = next(entry for entry in outcomes if entry.control_id == 77)
    assert reason(cancelled) == "CANCELLED"
    assert effect.cancel.effect == session_pb2.CANCEL_EFFECT_DROPPED
    gates.leave.set()
    assert (await pipe.outcome()).request_id == 3
    assert (await pipe.ask(reading(request_id=5))).get_state.step_count == 1


async def test_a_deadline_is_told_at_once_and_the_next_step_gets_its_own_answer(
    pipe: Pipe, gates: Gates
) -> None:
    late = stepping(request_id=3, action='{"text":"wait"}')
    late.timeout.FromMilliseconds(50)
    pipe.send(opening(environment="slow"), resetting(), late)
    outcome = [await pipe.outcome() for _ in range(3)][2]
    assert reason(outcome) == "DEADLINE_EXCEEDED"
    assert outcome.error.effect == error_pb2.EFFECT_UNKNOWN
    pipe.send(stepping(request_id=4, action='{"text":"mine"}'))
    gates.leave.set()
    own = await pipe.outcome()
    assert own.request_id == 4
    assert '"text":"mine"' in own.step.observation.json


async def test_an_outcome_beyond_the_clients_limit_is_an_error_that_says_it_was_done(
    pipe: Pipe,
) -> None:
    request = session_pb2.ConnectRequest()
    request.client.max_receive_size_bytes = 1024
    pipe.send_bytes(request.SerializeToString())
    await pipe.response()
    pipe.send(opening(), resetting(), stepping(action='{"text":"' + "x" * 2000 + '"}'))
    outcome = [await pipe.outcome() for _ in range(3)][2]
    assert reason(outcome) == "OUTCOME_TOO_LARGE"
    assert outcome.error.effect == error_pb2.EFFECT_DONE
    assert (await pipe.ask(reading())).get_state.step_count == 1


async def test_ten_megabytes_pass(pipe: Pipe) -> None:
    request = session_pb2.ConnectRequest()
    request.client.max_receive_size_bytes = 100 * 2**20
    pipe.send_bytes(request.SerializeToString())
    await pipe.response()
    text = "x" * 10_000_000
    pipe.send(opening(), resetting(), stepping(action=f'{{"text":"{text}"}}'))
    outcome = [await pipe.outcome() for _ in range(3)][2]
    assert text in outcome.step.observation.json


@pytest.mark.parametrize("data", [b"\xff\xff\xff", b"\x12\x7f\x08"], ids=["noise", "cut"])
async def test_what_is_no_message_ends_the_stream(
    pipe: Pipe, host: SessionManager, data: bytes
) -> None:
    await pipe.ask(opening())
    pipe.send_bytes(data)
    with pytest.raises(ProtocolViolationError):
        await pipe.served()
    assert host.sessions() == []


async def test_a_half_close_lets_what_is_under_way_be_answered(
    pipe: Pipe, host: SessionManager, gates: Gates
) -> None:
    pipe.send(opening(environment="slow"), resetting(), stepping(action='{"text":"wait"}'))
    pipe.end()
    _ = [await pipe.outcome() for _ in range(2)]
    gates.leave.set()
    assert (await pipe.outcome()).WhichOneof("kind") == "step"
    await pipe.served()
    assert host.sessions() == []
    assert gates.closed == 1


async def test_a_session_that_an_operator_ends_is_told_as_an_event(
    pipe: Pipe, host: SessionManager
) -> None:
    opened = await pipe.ask(opening())
    host.end_session(opened.open.session_id, SessionClosedError("closed by an operator"))
    event = await pipe.outcome()
    assert event.session == 1
    assert event.event.session_lost.reason == error_pb2.REASON_SESSION_CLOSED
    assert event.event.session_lost.session_lost
    assert event.event.HasField("event_time")
    assert reason(await pipe.ask(stepping(request_id=2))) == "SESSION_NOT_FOUND"


@pytest.mark.parametrize("messages", [1, 2], ids=["of_one_message", "of_the_next_message"])
async def test_unsent_outcomes_hold_up_further_operations(
    host: SessionManager, messages: int
) -> None:
    async with piped(host, StreamLimits(max_unsent_bytes=1)) as pipe:
        writing, blocked = asyncio.Event(), asyncio.Event()
        write_at_once = pipe.write

        async def write(data: bytes) -> None:
            writing.set()
            await blocked.wait()
            await write_at_once(data)

        pipe.write = write  # type: ignore[method-assign]
        pipe.send(unknown_session())  # its answer is being written
        async with asyncio.timeout(5):
            await writing.wait()
        unsent = unknown_session()
        if messages == 1:
            pipe.send(unsent, opening(2))
        else:
            pipe.send(unsent)
            pipe.send(opening(2))
        async with asyncio.timeout(5):
            while pipe.unread != messages - 1:
                await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        assert host.sessions() == []
        blocked.set()
        for _ in range(2):
            assert reason(await pipe.outcome()) == "SESSION_NOT_FOUND"
        assert (await pipe.outcome()).WhichOneof("kind") == "open"


@pytest.mark.parametrize("abrupt", [False, True], ids=["clean", "abrupt"])
async def test_a_hundred_clients_leave_nothing_behind(
    host: SessionManager, caplog: pytest.LogCaptureFixture, abrupt: bool
) -> None:
    caplog.set_level(logging.WARNING)
    for _ in range(10):
        pipes = []
        for _ in range(10):
            pipe = Pipe()
            pipe.task = asyncio.create_task(serve_stream(pipe, host, peer="test"))
            pipe.send(opening(environment="countdown"), resetting(), stepping())
            pipes.append(pipe)
        for pipe in pipes:
            if abrupt:
                await pipe.outcome()
                pipe.cut()
            else:
                _ = [await pipe.outcome() for _ in range(3)]
                pipe.end()
        for pipe in pipes:
            await pipe.served()
    assert host.sessions() == []
    for thread in environment_threads():
        thread.join(5)
    assert environment_threads() == []
    assert caplog.records == []


@pytest.mark.parametrize("limit", [-1, 1, 1023])
async def test_a_client_that_takes_next_to_nothing_is_refused(pipe: Pipe, limit: int) -> None:
    request = session_pb2.ConnectRequest()
    request.client.max_receive_size_bytes = limit
    pipe.send_bytes(request.SerializeToString())
    with pytest.raises(ProtocolViolationError, match="max_receive_size_bytes"):
        await pipe.served()


async def test_an_error_beyond_the_clients_limit_is_cut_to_what_matters(pipe: Pipe) -> None:
    request = session_pb2.ConnectRequest()
    request.client.max_receive_size_bytes = 1024
    pipe.send_bytes(request.SerializeToString())
    await pipe.response()
    name = "x" * 2000
    unknown = await pipe.ask(opening(environment=name))
    assert reason(unknown) == "ENVIRONMENT_NOT_FOUND"
    assert unknown.error.session_lost
    pipe.send(opening(), resetting(), stepping(action=f'{{"{name}":1}}'))
    refused = [await pipe.outcome() for _ in range(3)][2]
    assert reason(refused) == "INVALID_ACTION"
    assert refused.error.effect == error_pb2.EFFECT_NONE
    assert refused.ByteSize() < 1024


async def test_a_session_that_is_lost_is_forgotten_by_the_stream(pipe: Pipe) -> None:
    pipe.send(opening(environment="failing"), resetting(), stepping(action='{"text":"exit"}'))
    lost = [await pipe.outcome() for _ in range(3)][2]
    assert reason(lost) == "ENVIRONMENT_CRASHED"
    assert lost.error.session_lost
    assert reason(await pipe.ask(stepping(request_id=4))) == "SESSION_NOT_FOUND"
    assert reason(await pipe.ask(opening(request_id=1))) == "INVALID_REQUEST"  # a number used


@pytest.mark.parametrize(
    "timeout",
    [{"seconds": 2**62}, {"seconds": -5}, {"nanos": -1}],
    ids=["for_ever", "negative", "just_negative"],
)
async def test_a_timeout_out_of_range_is_refused(pipe: Pipe, timeout: dict[str, int]) -> None:
    pipe.send(opening(), resetting())
    await pipe.outcome(), await pipe.outcome()
    operation = stepping()
    operation.timeout.CopyFrom(duration_pb2.Duration(**timeout))
    assert reason(await pipe.ask(operation)) == "INVALID_REQUEST"


async def test_stopping_answers_what_is_under_way_and_ends_the_stream(
    host: SessionManager, gates: Gates
) -> None:
    stopping = asyncio.get_running_loop().create_future()
    pipe = Pipe()
    pipe.task = asyncio.create_task(serve_stream(pipe, host, peer="test", stopping=stopping))
    pipe.send(opening(environment="slow"), resetting(), stepping(action='{"text":"wait"}'))
    _ = [await pipe.outcome() for _ in range(2)]
    stopping.set_result(None)
    gates.leave.set()
    assert (await pipe.outcome()).WhichOneof("kind") == "step"
    with pytest.raises(UnavailableError, match="shutting down") as caught:
        await pipe.served()
    assert caught.value.session_lost
    assert host.sessions() == []


async def test_thousands_of_operations_of_many_sessions_are_answered_in_order(pipe: Pipe) -> None:
    numbers = range(1, 41)
    pipe.send(*(opening(number) for number in numbers), *(resetting(number) for number in numbers))
    _ = [await pipe.outcome() for _ in range(80)]
    last = dict.fromkeys(numbers, 2)
    for _ in range(20):
        pipe.send(*(stepping(n, last[n] + ahead) for n in numbers for ahead in range(1, 11)))
        for _ in range(400):
            outcome = await pipe.outcome()
            assert outcome.WhichOneof("kind") == "step"
            last[outcome.session] += 1
            assert outcome.request_id == last[outcome.session]


async def test_a_message_of_very_many_operations_leaves_others_their_turn(pipe: Pipe) -> None:
    turns = 0
    over = asyncio.Event()

    async def other() -> None:
        nonlocal turns
        while not over.is_set():
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(other())
    pipe.send(*[session_pb2.Operation()] * 20_000)
    for _ in range(20_000):
        assert reason(await pipe.outcome()) == "INVALID_REQUEST"
    over.set()
    await beside
    assert turns > 30
