"""What is counted, and what counting costs."""

from __future__ import annotations

import time

import pytest

from openenv_grpc.engine import EngineSettings
from openenv_grpc.errors import DrainingError, Reason, SessionCapacityError
from openenv_grpc.metrics import DURATION_BOUNDS_S, Durations, EnvironmentMetrics
from openenv_grpc.operations import Kind
from tests.engine.talking import Caller, ManualClock, reason, received, running
from tests.environments import Countdown, Failing, Gates, Slow


def count(metrics: EnvironmentMetrics, kind: Kind) -> int:
    return sum(metrics.durations[kind].counts)


@pytest.mark.parametrize(
    ("seconds", "place"),
    [(0.0, 0), (0.0001, 0), (0.00011, 1), (1.0, 12), (300.0, 18), (301.0, 19)],
)
def test_a_duration_falls_into_the_first_class_whose_bound_it_does_not_exceed(
    seconds: float, place: int
) -> None:
    durations = Durations()
    durations.add(seconds)
    expected = [0] * (len(DURATION_BOUNDS_S) + 1)
    expected[place] = 1
    assert (durations.counts, durations.total_s) == (expected, seconds)


async def test_operations_are_counted_by_kind_and_failures_by_reason() -> None:
    async with running(Failing) as manager, manager.attach(peer="test") as attachment:
        counted = manager.metrics.environments["Failing"]
        caller = Caller(attachment.open(""))
        await caller.reset()
        await caller.step()
        await caller.ask(Kind.STEP, {"text": "value"})
        await caller.ask(Kind.STEP, {"by": "many"})
        await caller.ask(Kind.STATE, request_id=7)
        await caller.close()
    assert {kind: number for kind in Kind if (number := count(counted, kind))} == {
        Kind.RESET: 1, Kind.STEP: 3, Kind.CLOSE: 1,
    }  # fmt: skip
    assert counted.errors == {
        Reason.ENVIRONMENT_FAILED: 1, Reason.INVALID_ACTION: 1, Reason.OUT_OF_ORDER: 1,
    }  # fmt: skip


async def test_a_duration_runs_from_the_arrival_of_an_operation_to_its_answer() -> None:
    clock, gates = ManualClock(), Gates()
    async with running(lambda: Slow(gates), clock=clock) as manager:
        (counted,) = manager.metrics.environments.values()
        caller = Caller(manager.lease("", peer="test"))
        await caller.reset()
        waiting = caller.send(Kind.STEP, {"text": "wait"})
        after = caller.send(Kind.STEP, {})
        clock.advance(3)
        gates.leave.set()
        await received(waiting)
        await received(after)
    assert counted.durations[Kind.STEP].total_s == 6.0


async def test_sessions_are_counted_by_how_they_end() -> None:
    clock = ManualClock()
    settings = EngineSettings(max_sessions=3, session_timeout_s=60)
    async with running(Countdown, clock=clock, settings=settings) as manager:
        counted = manager.metrics.environments["Countdown"]
        async with manager.attach(peer="test") as attachment:
            await Caller(attachment.open("")).close()
            attachment.open("")
        idle = manager.lease("", peer="test", idle_timeout_s=5)
        clock.advance(6)
        assert idle.info().state.value != "ready"
        for _ in range(3):
            manager.lease("", peer="test")
        with pytest.raises(SessionCapacityError):
            manager.lease("", peer="test")
        manager.drain()
        with pytest.raises(DrainingError):
            manager.lease("", peer="test")
        async with manager.transient() as session:
            await Caller(session).step()
    assert counted.opened == 6
    assert counted.ended == {
        "closed by its client": 1, "its connection ended": 1, "idle": 1, "server stopped": 3,
    }  # fmt: skip
    assert counted.errors == {Reason.CAPACITY_REACHED: 1, Reason.DRAINING: 1}


async def test_an_operation_whose_time_has_passed_is_counted_once() -> None:
    clock, gates = ManualClock(), Gates()
    async with running(lambda: Slow(gates), clock=clock) as manager:
        (counted,) = manager.metrics.environments.values()
        caller = Caller(manager.lease("", peer="test"))
        await caller.reset()
        late = caller.send(Kind.STEP, {"text": "wait"}, timeout_s=2)
        clock.advance(2)
        assert await reason(late) == "DEADLINE_EXCEEDED"
        gates.leave.set()
        await caller.step()
    assert count(counted, Kind.STEP) == 2
    assert counted.errors == {Reason.DEADLINE_EXCEEDED: 1}


def test_counting_an_operation_takes_less_than_a_microsecond_or_so() -> None:
    counted = EnvironmentMetrics()

    def seconds(rounds: int = 10_000) -> float:
        start = time.perf_counter()
        for _ in range(rounds):
            counted.durations[Kind.STEP].add(0.0003)
        return (time.perf_counter() - start) / rounds

    assert min(seconds() for _ in range(5)) < 3e-6  # of a machine that does other things as well
