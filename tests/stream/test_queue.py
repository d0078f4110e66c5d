"""Opens that wait for a slot, over pipes: `queue_timeout`, `group`, and the `progress` of both."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from openenv_grpc.engine import EngineSettings, EnvironmentDefinition, SessionManager
from openenv_grpc.v1 import error_pb2, session_pb2
from tests.environments import Count, Countdown, Counted
from tests.stream.pipe import cancelling, closing, opening, piped, resetting, stepping


@pytest.fixture
async def host() -> AsyncIterator[SessionManager]:
    definition = EnvironmentDefinition(
        factory=Countdown, action_type=Count, observation_type=Counted, max_sessions=1
    )
    async with SessionManager([definition], EngineSettings(hold_and_wait_grace_s=0.1)) as manager:
        yield manager


def reason(outcome: session_pb2.Outcome) -> str:
    assert outcome.WhichOneof("kind") == "error", outcome
    return error_pb2.Reason.Name(outcome.error.reason).removeprefix("REASON_")


def asking(session: int, *, progress: bool = True) -> session_pb2.Operation:
    operation = opening(session)
    operation.open.progress = progress
    return operation


async def test_an_open_that_waits_is_told_its_place_and_then_done(host: SessionManager) -> None:
    async with piped(host) as holder, piped(host) as pipe:
        assert (await holder.ask(opening())).HasField("open")
        pipe.send(asking(1), resetting(1), stepping(1))
        first = await pipe.outcome()
        assert (first.session, first.request_id) == (1, 1)
        assert (first.progress.queue_position, first.progress.session_limit) == (1, 1)
        assert first.progress.queue_timeout.ToSeconds() == 300
        holder.send(closing(request_id=2))
        admitted = await pipe.outcome()
        assert admitted.HasField("progress")
        assert admitted.progress.queue_position == 0
        outcomes = [await pipe.outcome() for _ in range(3)]
        assert [outcome.WhichOneof("kind") for outcome in outcomes] == [
            "open", "reset_episode", "step",
        ]  # fmt: skip


async def test_who_did_not_ask_for_progress_gets_one_outcome_for_an_open(
    host: SessionManager,
) -> None:
    async with piped(host) as holder, piped(host) as pipe:
        await holder.ask(opening())
        pipe.send(asking(1, progress=False))
        holder.send(closing(request_id=2))
        assert (await pipe.outcome()).HasField("open")


async def test_an_open_waits_no_longer_than_its_queue_timeout(host: SessionManager) -> None:
    async with piped(host) as holder, piped(host) as pipe:
        await holder.ask(opening())
        operation = opening()
        operation.open.queue_timeout.FromMilliseconds(10)
        refused = await pipe.ask(operation)
        assert reason(refused) == "CAPACITY_REACHED"
        assert refused.error.session_lost
        assert refused.error.effect == error_pb2.EFFECT_NONE
        assert refused.error.retry_delay.ToSeconds() == 1


async def test_a_waiting_open_can_be_cancelled(host: SessionManager) -> None:
    async with piped(host) as holder, piped(host) as pipe:
        await holder.ask(opening())
        pipe.send(asking(1), cancelling(1, 1))
        assert (await pipe.outcome()).HasField("progress")
        assert reason(await pipe.outcome()) == "CANCELLED"
        assert (await pipe.outcome()).cancel.effect == session_pb2.CANCEL_EFFECT_DROPPED
        assert len(host.sessions()) == 1


async def test_session_0_waits_as_well(host: SessionManager) -> None:
    async with piped(host) as holder, piped(host) as pipe:
        await holder.ask(opening())
        pipe.send(resetting(session=0, request_id=0))
        holder.send(closing(request_id=2))
        assert (await pipe.outcome()).HasField("reset_episode")


async def test_who_holds_every_slot_and_waits_is_told_so(host: SessionManager) -> None:
    async with piped(host) as pipe:
        await pipe.ask(opening(1))
        refused = await pipe.ask(opening(2))
        assert reason(refused) == "CAPACITY_REACHED"
        assert "--max-sessions 2" in refused.error.message
        assert refused.error.metadata["held_sessions"] == "1"
        assert not refused.error.HasField("retry_delay")


@pytest.mark.parametrize(
    "change",
    [
        lambda open_: setattr(open_, "group", "g"),
        lambda open_: setattr(open_, "group_size", 1),
        lambda open_: setattr(open_, "group_size", -1),
        lambda open_: open_.MergeFrom(session_pb2.Open(group="g", group_size=-1)),
        lambda open_: open_.MergeFrom(session_pb2.Open(group="g", group_size=2)),
        lambda open_: open_.queue_timeout.FromSeconds(-1),
    ],
    ids=["no size", "no group", "less", "negative size", "too large", "negative timeout"],
)
async def test_a_wait_that_makes_no_sense_is_refused(
    host: SessionManager, change: Callable[[session_pb2.Open], None]
) -> None:
    async with piped(host) as pipe:
        operation = opening()
        change(operation.open)
        refused = await pipe.ask(operation)
        assert reason(refused) == "INVALID_REQUEST"
        assert refused.error.session_lost
        assert host.sessions() == []
        assert (await pipe.ask(opening())).HasField("open")
