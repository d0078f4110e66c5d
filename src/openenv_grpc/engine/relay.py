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
HELD_S = 0.001
"""How long they do, counted from the beginning of the call."""


class Relay:
    """Wakes one thread at a time, and the event loop for many results at once.

    Python runs one thread at a time, so threads that are all awake only get into each other's way:
    a step then takes six switches between threads. Here a thread that was woken wakes the next one
    and then runs its call. So nobody waits for a call, however long it takes.

    While a thread is on its way, results wait for its own: it wakes the loop, if nobody else does.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, *, clock: Callable[[], float] = monotonic
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._waiting: deque[Callable[[], None]] = deque()
        self._coming = threading.Lock()  # held from a thread's waking to its `arrive`
        self._ready: deque[tuple[Done, Any, Any]] = deque()
        self._begun = 0.0  # when the first call among the results began
        self._woken = False  # the loop, which will deliver

    # Threads. What follows is safe without a lock, as each step is one operation and their order
    # is such that who gives something up looks once more afterwards.

    def join(self, wake: Callable[[], None]) -> None:
        """Has a thread woken after those that joined before it."""
        self._waiting.append(wake)
        if self._coming.acquire(blocking=False):
            self._wake_next()

    def arrive(self) -> None:
        """Has the next thread woken, as the one that calls this is awake."""
        others_come = self._wake_next()
        if self._ready and not self._woken and not (others_come and self._may_wait()):
            self._wake_loop()

    def _wake_next(self) -> bool:
        """Wakes who is next. Returns whether somebody was; else nobody is on the way any more."""
        while True:
            if self._waiting:
                self._waiting.popleft()()
                return True
            self._coming.release()
            if not self._waiting or not self._coming.acquire(blocking=False):
                return False

    # Results

    def put(self, done: Done, argument: Any, result: Any, *, begun: float) -> None:
        """Brings a result to the loop, from any thread; `begun` is when its call began."""
        if not self._ready or begun < self._begun:
            self._begun = begun
        self._ready.append((done, argument, result))
        if self._woken:  # it takes what is there after it has cleared this
            return
        if not self._coming.locked() or len(self._ready) >= HELD_RESULTS or not self._may_wait():
            self._wake_loop()

    def _may_wait(self) -> bool:
        return self._clock() - self._begun < HELD_S

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
