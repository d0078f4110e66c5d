"""One timer for many moments: it rings at the earliest of those that it was set to."""

from __future__ import annotations

from collections.abc import Callable

from openenv_grpc.engine.clock import Clock, Timer

NEVER = float("inf")


class Alarm:
    """Rings once, and then has to be set again."""

    def __init__(self, clock: Clock, ring: Callable[[], None]) -> None:
        self._clock = clock
        self._ring = ring
        self._timer: Timer | None = None
        self._due = NEVER

    def set(self, due: float) -> None:
        """Has it ring at a time of the clock, if it does not ring before; never at `NEVER`."""
        if due >= self._due:
            return
        self._cancel()
        self._due = due
        self._timer = self._clock.call_later(due - self._clock.time(), self._go_off)

    def stop(self) -> None:
        """Has it ring no more, whatever it is set to."""
        self._cancel()
        self._due = -NEVER

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _go_off(self) -> None:
        self._timer, self._due = None, NEVER
        self._ring()
