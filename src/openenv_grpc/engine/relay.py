"""The order in which threads of environments are woken, and the event loop for their results."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Any

Done = Callable[[Any, Any], None]
"""Called on the loop with the argument of a call and its result, or the exception of the call."""

HELD_RESULTS = 16
"""Results that wait for others, at most."""
HELD_S = 0.005
"""How long they do, from the beginning of the call: as long as Python lets one thread run."""
LATE_S = 0.001
"""When a thread that was woken is late, after the last that joined or arrived: another one computes
for long, or the machine is busy."""


class Relay:
    """Wakes one thread at a time, and the event loop for many results at once.

    Python runs one thread at a time, so threads that are all awake only get into each other's way:
    a step then takes five switches between threads. Here a thread that was woken wakes the next one
    and then runs its call. So nobody waits for a call, however long it takes. If a thread is late,
    all that wait are woken: then they stand in Python's own queue, beside what keeps them.

    While a thread is on its way, results wait for its own: it wakes the loop, if nobody else does.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, *, clock: Callable[[], float] = monotonic
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._lock = threading.Lock()  # guards the next three
        self._waiting: deque[Callable[[], None]] = deque()
        self._coming = 0  # threads that were woken and have not arrived
        self._last = 0.0  # when a thread joined or arrived
        self._ready: deque[tuple[Done, Any, Any]] = deque()
        self._begun = 0.0  # when the first call among the results began
        self._woken = False  # the loop, which will deliver

    # Threads

    def join(self, wake: Callable[[], None]) -> None:
        """Has a thread woken after those that joined before it. It has to call `arrive` then."""
        with self._lock:
            self._waiting.append(wake)
            self._last = self._clock()
            if not self._coming:
                self._wake_next()

    def arrive(self) -> None:
        """Notes that a thread that was woken runs, and wakes the next one."""
        with self._lock:
            now = self._clock()
            late = now - self._last > LATE_S
            self._last = now
            self._coming -= 1
            while self._waiting and (late or not self._coming):
                self._wake_next()
        if self._ready and not self._woken and not self._may_wait():
            self._wake_loop()

    def _wake_next(self) -> None:
        self._coming += 1
        self._waiting.popleft()()

    # Results

    def put(self, done: Done, argument: Any, result: Any, *, begun: float) -> None:
        """Brings a result to the loop, from any thread; `begun` is when its call began."""
        if not self._ready or begun < self._begun:
            self._begun = begun
        self._ready.append((done, argument, result))
        # Who sees that the loop was woken can leave it at that: it clears this before it takes.
        if not self._woken and (len(self._ready) >= HELD_RESULTS or not self._may_wait()):
            self._wake_loop()

    def _may_wait(self) -> bool:
        # Whoever is on the way looks for results after it has arrived, and so sees all of those
        # whose threads have seen that it was coming.
        return self._coming > 0 and self._clock() - self._begun < HELD_S

    def _wake_loop(self) -> None:
        self._woken = True
        try:
            self._loop.call_soon_threadsafe(self._deliver)
        except RuntimeError:  # the loop is closed, nobody waits any more
            self._ready.clear()

    def _deliver(self) -> None:
        self._woken = False
        ready = self._ready
        try:
            for _ in range(len(ready)):  # what comes meanwhile has its own wake-up
                done, argument, result = ready.popleft()
                done(argument, result)
        except BaseException:
            self._loop.call_soon(self._deliver)  # the loop reports it, and goes on with the rest
            raise
