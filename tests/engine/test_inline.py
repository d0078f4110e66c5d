from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from openenv_grpc.engine.inline import LONG_S, WARNING_INTERVAL_S, InlineWorker, inline_worker
from openenv_grpc.events import facts_of


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Iterator[Clock]:
    return Clock()


def passing(worker: InlineWorker, clock: Clock, seconds: float) -> None:
    def call(_: None) -> None:
        clock.now += seconds

    worker.run(call, None, lambda _, __: None)


def test_a_call_that_holds_up_the_loop_is_logged_with_its_environment(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    worker = InlineWorker("chess", clock=clock)
    passing(worker, clock, LONG_S)
    assert not caplog.records
    passing(worker, clock, 0.2)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert facts_of(record) == {"environment": "chess", "took_ms": 200, "long_calls": 1}


def test_a_call_that_fails_after_a_long_time_is_logged_too(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: None) -> None:
        clock.now += 1
        raise ValueError

    results: list[object] = []
    InlineWorker("chess", clock=clock).run(fail, None, lambda _, result: results.append(result))
    assert isinstance(results[0], ValueError)
    assert len(caplog.records) == 1


def test_long_calls_are_logged_once_a_minute_with_their_number(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    worker = InlineWorker("chess", clock=clock)
    for _ in range(5):
        passing(worker, clock, 0.1)
    assert len(caplog.records) == 1
    clock.now += WARNING_INTERVAL_S
    passing(worker, clock, 0.1)
    assert [facts_of(record)["long_calls"] for record in caplog.records] == [1, 5]


def test_environments_are_logged_apart() -> None:
    assert inline_worker("chess") is inline_worker("chess")
    assert inline_worker("chess") is not inline_worker("go")
