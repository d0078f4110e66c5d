"""Sessions that outlive their stream: `resume_window`, `resume_key` and `attach` over pipes."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable

import pytest

from openenv_grpc.engine import EngineSettings, EnvironmentDefinition, SessionManager
from openenv_grpc.v1 import error_pb2, session_pb2
from tests.environments import Count, Countdown, Counted, Gates, Slow
from tests.stream.pipe import closing, opening, piped, reading, stepping

KEY = "k" * 22
WAIT = '{"text":"wait"}'


@pytest.fixture
def gates() -> Gates:
    return Gates()


@pytest.fixture
async def host(gates: Gates) -> AsyncIterator[SessionManager]:
    definitions = [
        EnvironmentDefinition(
            factory=factory, action_type=Count, observation_type=Counted, name=name, max_sessions=9
        )
        for name, factory in (("countdown", Countdown), ("slow", functools.partial(Slow, gates)))
    ]
    async with SessionManager(definitions, EngineSettings(max_resume_window_s=30)) as manager:
        yield manager
        gates.leave.set()


def reason(outcome: session_pb2.Outcome) -> str:
    assert outcome.WhichOneof("kind") == "error", outcome
    return error_pb2.Reason.Name(outcome.error.reason).removeprefix("REASON_")


def resumable(session: int = 1, *, key: str = KEY, environment: str = "") -> session_pb2.Operation:
    operation = opening(session, environment=environment)
    operation.open.resume_key = key
    operation.open.resume_window.FromSeconds(20)
    return operation


def attaching(
    session_id: str, session: int = 1, *, key: str = KEY, control_id: int = 5
) -> session_pb2.Operation:
    operation = session_pb2.Operation(session=session, control_id=control_id)
    operation.attach.session_id = session_id
    operation.attach.resume_key = key
    return operation


async def opened_and_cut(host: SessionManager, *operations: session_pb2.Operation) -> str:
    """Opens a session, has operations done in it, and loses the stream; returns its id."""
    async with piped(host) as pipe:
        pipe.send(resumable(), *operations)
        session_id = (await pipe.outcome()).open.session_id
        for _ in operations:
            await pipe.outcome()
    return session_id


async def test_open_tells_the_window_that_was_granted(host: SessionManager) -> None:
    async with piped(host) as pipe:
        opened = (await pipe.ask(resumable())).open
        assert opened.resume_window.ToSeconds() == 20
        longer = resumable(2, key="another key " + KEY)
        longer.open.resume_window.FromSeconds(3600)
        assert (await pipe.ask(longer)).open.resume_window.ToSeconds() == 30
        assert not (await pipe.ask(opening(3))).open.HasField("resume_window")


@pytest.mark.parametrize(
    "change",
    [
        lambda open_: open_.ClearField("resume_window"),
        lambda open_: open_.ClearField("resume_key"),
        lambda open_: setattr(open_, "resume_key", "k" * 21),
        lambda open_: setattr(open_, "resume_key", "k" * 65),
        lambda open_: open_.resume_window.FromSeconds(0),
        lambda open_: open_.resume_window.FromSeconds(-1),
    ],
    ids=["no window", "no key", "short key", "long key", "window of 0", "negative window"],
)
async def test_a_window_and_a_proper_key_go_together(
    host: SessionManager, change: Callable[[session_pb2.Open], None]
) -> None:
    async with piped(host) as pipe:
        operation = resumable()
        change(operation.open)
        refused = await pipe.ask(operation)
        assert reason(refused) == "INVALID_REQUEST"
        assert refused.error.session_lost
        assert host.sessions() == []


async def test_an_attached_session_goes_on_under_another_number(host: SessionManager) -> None:
    session_id = await opened_and_cut(host, stepping(request_id=2))
    async with piped(host) as pipe:
        attached = await pipe.ask(attaching(session_id, session=7))
        assert (attached.session, attached.request_id, attached.control_id) == (7, 0, 5)
        assert attached.attach.last_request_id == 2
        step = await pipe.ask(stepping(7, request_id=3))
        assert (step.session, step.request_id) == (7, 3)
        assert '"left":-2' in step.step.observation.json


async def test_outcomes_are_told_again_under_the_new_number(host: SessionManager) -> None:
    session_id = await opened_and_cut(host, stepping(request_id=2))
    async with piped(host) as pipe:
        pipe.send(attaching(session_id, 7), stepping(7, request_id=2), reading(7, request_id=3))
        attached, step, state = [await pipe.outcome() for _ in range(3)]
        assert attached.HasField("attach")
        assert (step.session, step.request_id) == (7, 2)
        assert '"left":-1' in step.step.observation.json
        assert state.get_state.step_count == 1


async def test_what_cannot_be_attached_says_so_by_its_control_id(host: SessionManager) -> None:
    session_id = await opened_and_cut(host)
    async with piped(host) as pipe:
        for wrong in (attaching(session_id, key="x" * 22), attaching("no session")):
            refused = await pipe.ask(wrong)
            assert reason(refused) == "SESSION_NOT_FOUND"
            assert (refused.control_id, refused.request_id) == (5, 0)
            assert refused.error.session_lost
        await pipe.ask(opening(2))
        assert reason(await pipe.ask(attaching(session_id, 2))) == "INVALID_REQUEST"
        assert (await pipe.ask(attaching(session_id))).HasField("attach")
        assert reason(await pipe.ask(attaching(session_id))) == "INVALID_REQUEST"


async def test_the_stream_that_held_a_session_is_told_that_it_was_taken_over(
    host: SessionManager,
) -> None:
    async with piped(host) as first, piped(host) as second:
        session_id = (await first.ask(resumable())).open.session_id
        await second.ask(attaching(session_id))
        told = await first.outcome()
        lost = told.event.session_lost
        assert (told.session, told.request_id) == (1, 0)
        assert lost.reason == error_pb2.REASON_SESSION_TAKEN_OVER
        assert not lost.session_lost
        refused = await first.ask(stepping(request_id=2))
        assert reason(refused) == "SESSION_TAKEN_OVER"
        assert refused.error.effect == error_pb2.EFFECT_NONE
        assert (await second.ask(stepping(request_id=2))).HasField("step")


async def test_outcomes_of_what_was_under_way_go_to_the_stream_that_asks_again(
    host: SessionManager, gates: Gates
) -> None:
    async with piped(host) as first, piped(host) as second:
        session_id = (await first.ask(resumable(environment="slow"))).open.session_id
        first.send(stepping(request_id=2, action=WAIT))
        assert await asyncio.to_thread(gates.entered.wait, 5)
        second.send(attaching(session_id), stepping(request_id=2, action=WAIT))
        assert (await second.outcome()).HasField("attach")
        assert (await first.outcome()).HasField("event")
        gates.leave.set()
        assert (await second.outcome()).request_id == 2
        first.send(reading(request_id=3))
        assert reason(await first.outcome()) == "SESSION_TAKEN_OVER"


async def test_a_stream_that_was_fenced_ends_without_waiting_for_what_it_lost(
    host: SessionManager, gates: Gates
) -> None:
    async with piped(host) as first, piped(host) as second:
        session_id = (await first.ask(resumable(environment="slow"))).open.session_id
        first.send(stepping(request_id=2, action=WAIT))
        assert await asyncio.to_thread(gates.entered.wait, 5)
        first.end()
        await second.ask(attaching(session_id))
        await first.served()


async def test_a_session_may_change_its_number_on_one_stream(host: SessionManager) -> None:
    async with piped(host) as pipe:
        session_id = (await pipe.ask(resumable())).open.session_id
        pipe.send(attaching(session_id, 2))
        assert (await pipe.outcome()).event.HasField("session_lost")
        assert (await pipe.outcome()).HasField("attach")
        assert (await pipe.ask(stepping(2, request_id=2))).session == 2


async def test_an_open_whose_answer_was_lost_is_sent_again(host: SessionManager) -> None:
    session_id = await opened_and_cut(host)
    async with piped(host) as pipe:
        opened = await pipe.ask(resumable(3))
        assert (opened.session, opened.request_id) == (3, 1)
        assert opened.open.session_id == session_id
        assert len(host.sessions()) == 1


async def test_a_close_whose_answer_was_lost_is_sent_again(host: SessionManager) -> None:
    session_id = await opened_and_cut(host, stepping(request_id=2), closing(request_id=3))
    assert host.sessions() == []
    async with piped(host) as pipe:
        pipe.send(attaching(session_id), closing(request_id=3))
        assert (await pipe.outcome()).attach.last_request_id == 3
        assert (await pipe.outcome()).close.step_count == 1
        assert reason(await pipe.ask(stepping(request_id=4))) == "SESSION_NOT_FOUND"


async def test_a_draining_host_still_lets_sessions_be_attached_to(host: SessionManager) -> None:
    session_id = await opened_and_cut(host)
    host.drain()
    async with piped(host) as pipe:
        assert (await pipe.ask(attaching(session_id))).HasField("attach")


async def test_an_acknowledged_outcome_is_not_told_again(host: SessionManager) -> None:
    session_id = await opened_and_cut(host, stepping(request_id=2))
    async with piped(host) as pipe:
        await pipe.ask(attaching(session_id))
        acknowledging = reading(request_id=3)
        acknowledging.acknowledged_id = 2
        await pipe.ask(acknowledging)
        forgotten = await pipe.ask(stepping(request_id=2))
        assert reason(forgotten) == "OUTCOME_FORGOTTEN"
        assert forgotten.error.effect == error_pb2.EFFECT_UNKNOWN
        assert not forgotten.error.session_lost


async def test_sessions_without_a_window_end_with_their_stream(host: SessionManager) -> None:
    async with piped(host) as pipe:
        pipe.send(resumable(1), opening(2))
        opened = (await pipe.outcome()).open, (await pipe.outcome()).open
        kept = next(one.session_id for one in opened if one.HasField("resume_window"))
    assert [info.session_id for info in host.sessions()] == [kept]
