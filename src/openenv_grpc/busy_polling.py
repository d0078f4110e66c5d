"""Event loops that look again and again for what is about to come, instead of sleeping."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from time import monotonic, thread_time

from openenv_grpc.errors import ConfigurationError
from openenv_grpc.processor_quota import processor_quota

VARIABLE = "OPENENV_GRPC_BUSY_POLL_US"

LIMIT_S = 0.0005
"""How long a wait is polled, unless something else is said."""

MAX_LIMIT_S = 0.1

LEAST_QUOTA = 2.0
"""With less than that many processors nothing is polled, unless somebody says so."""

MAX_SKIPPED = 64
"""Waits that are slept through after one that was polled in vain, at most."""

OTHERS_SHARE = 0.4
"""How much of a wait others may have had this processor, before it counts as contended."""

MAX_CONTENDED = 1024
"""By how many more of the waits may be contended than not: meanwhile the system moves threads to
processors that are free, which it takes a fifth of a second for."""

REST_S = 1.0
"""How long no wait is polled after that; twice as long each time that it comes to that again."""

MAX_REST_S = 16.0

_give_way: Callable[[], None] | None = getattr(os, "sched_yield", None)  # not there on Windows


class BusyPolling:
    """Keeps the running event loop awake in waits that are short of late.

    Who sleeps is woken late. Idle processors halt, and it takes 50 to 100 us until one runs again
    in a virtual machine, with cold caches: several times as long as a light environment steps. So a
    loop that expects something looks for it for a while, as the threads of Go and of MPI do.

    It is to use only what would be idle else. In each of its turns the loop gives way. Where
    nothing came in time it sleeps through the next wait, through two after another failure, and so
    on; and where others want its processor again and again, it leaves it to them for a while.
    """

    def __init__(
        self,
        limit_s: float = LIMIT_S,
        *,
        clock: Callable[[], float] = monotonic,
        used: Callable[[], float] = thread_time,
    ) -> None:
        """Polls for `limit_s` a wait, and never with 0. `used` tells this thread's own time."""
        self._loop = asyncio.get_running_loop()
        self._limit_s = limit_s if _give_way is not None else 0.0
        self._clock = clock
        self._used = used
        self._waits = False
        self._fresh = False  # whether that has just begun
        self._polls = False  # in this wait
        self._turn_due = False
        self._began = 0.0
        self._used_before = 0.0
        self._skips = 0  # waits that are slept through, before one is polled
        self._penalty = 1
        self._contended = 0  # waits, less those that were not
        self._rest_s = REST_S
        self._rests_until = 0.0

    def begin(self) -> None:
        """Notes that there is nothing to do but to wait. It may be noted already."""
        if self._waits:
            return
        self._waits = self._fresh = True
        if not self._turn_due and self._limit_s:
            self._turn_due = True
            self._loop.call_soon(self._turn)

    def end(self) -> None:
        """Notes that something has come. There may have been no wait."""
        self._waits = self._fresh = False
        if self._polls:
            self._stop(self._clock())
            self._penalty = 1

    def _turn(self) -> None:
        """Looks, where the loop has come to an end of what there was to do."""
        if self._fresh:
            self._fresh = False
            self._start(self._clock())
        if self._polls and not self._in_vain():
            self._loop.call_soon(self._turn)
        else:
            self._turn_due = False

    def _start(self, now: float) -> None:
        if self._skips:
            self._skips -= 1
        elif now >= self._rests_until:
            self._polls = True
            self._began, self._used_before = now, self._used()

    def _in_vain(self) -> bool:
        """Lets others have the processor for a moment, and gives up after too long a time."""
        assert _give_way is not None  # else nothing is polled
        _give_way()
        now = self._clock()
        if now - self._began < self._limit_s:
            return False
        self._stop(now)
        self._skips = self._penalty
        self._penalty = min(2 * self._penalty, MAX_SKIPPED)
        return True

    def _stop(self, now: float) -> None:
        """Notes whether others had the processor meanwhile."""
        self._polls = False
        took_s = now - self._began
        if took_s - (self._used() - self._used_before) <= OTHERS_SHARE * took_s:
            self._contended -= 1
            if self._contended < -MAX_CONTENDED:
                self._contended, self._rest_s = -MAX_CONTENDED, REST_S
            return
        self._contended += 1
        if self._contended > MAX_CONTENDED:
            self._contended, self._rests_until = 0, now + self._rest_s
            self._rest_s = min(2 * self._rest_s, MAX_REST_S)


def limit_of_variable() -> float:
    """Returns what the variable says, in seconds. Raises `ConfigurationError`.

    Without it nothing is polled where a container has a small quota, which polling would use up.
    """
    said = os.environ.get(VARIABLE, "")
    if not said:
        return LIMIT_S if processor_quota() >= LEAST_QUOTA else 0.0
    try:
        return checked_limit(float(said) / 1e6)
    except (ValueError, ConfigurationError):
        raise ConfigurationError(
            f"{VARIABLE} is a number of microseconds from 0 to {MAX_LIMIT_S * 1e6:g}, not {said!r}"
        ) from None


def checked_limit(limit_s: float) -> float:
    """Returns a limit. Raises `ConfigurationError` if it is none."""
    if not 0 <= limit_s <= MAX_LIMIT_S:
        raise ConfigurationError(
            f"busy_poll_s is from 0, for never, to {MAX_LIMIT_S:g} seconds, not {limit_s!r}"
        )
    return limit_s
