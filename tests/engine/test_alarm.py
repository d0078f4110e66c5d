from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from openenv_grpc.engine.alarm import NEVER, Alarm


class Timer:
    def __init__(self, due: float) -> None:
        self.due = due
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Clock:
    """Stands still; its timers are rung by hand."""

    def __init__(self) -> None:
        self.timers: list[tuple[Timer, Callable[..., Any]]] = []

    def time(self) -> float:
        return 100.0

    def call_later(self, delay: float, callback: Callable[..., Any], *arguments: Any) -> Timer:
        timer = Timer(100.0 + delay)
        self.timers.append((timer, callback))
        return timer

    @property
    def due(self) -> list[float]:
        return [timer.due for timer, _ in self.timers if not timer.cancelled]


def test_it_rings_at_the_earliest_moment_only() -> None:
    clock, rung = Clock(), asyncio.Event()
    alarm = Alarm(clock, rung.set)
    for due in (130.0, 110.0, 120.0, NEVER):
        alarm.set(due)
    assert clock.due == [110.0]
    clock.timers[-1][1]()
    assert rung.is_set()


def test_it_can_be_set_again_once_it_has_rung_and_from_within() -> None:
    clock = Clock()
    alarm = Alarm(clock, lambda: alarm.set(150.0))
    alarm.set(110.0)
    _, ring = clock.timers.pop()
    ring()
    assert clock.due == [150.0]


def test_never_needs_no_timer() -> None:
    clock = Clock()
    Alarm(clock, lambda: None).set(NEVER)
    assert clock.due == []


def test_after_its_stop_it_is_set_no_more() -> None:
    clock = Clock()
    alarm = Alarm(clock, lambda: None)
    alarm.set(110.0)
    alarm.stop()
    alarm.set(105.0)
    assert clock.due == []
