"""Where blocking calls run: a thread with a queue, or the event loop itself."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Protocol

from openenv_grpc.engine.kept_threads import KeptThreads

Call = Callable[[Any], Any]
"""What is run, with one argument."""
Done = Callable[[Any, Any], None]
"""Called on the loop with the same argument and the result, or the exception of the call."""


class Worker(Protocol):
    """Runs calls one after the other."""

    def run(self, call: Call, argument: Any, done: Done) -> None:
        """Has a call run after those before it; `done` follows on the event loop."""
        ...

    def stop(self) -> None:
        """Lets the worker end once it has run what it was given."""
        ...

    @property
    def ended(self) -> bool:
        """Whether nothing of it is left."""
        ...


class Completions:
    """Brings results from threads to the event loop: one wake-up for all that are ready."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._ready: deque[tuple[Done, Any, Any]] = deque()
        self._woken = False

    def put(self, done: Done, argument: Any, result: Any) -> None:
        """Adds a result, from any thread."""
        # The order matters: `_deliver` clears the mark before it takes anything, so whoever finds
        # it set after adding will be served.
        self._ready.append((done, argument, result))
        if not self._woken:
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


class ThreadWorker:
    """A thread that is taken by its first call."""

    def __init__(self, completions: Completions, threads: KeptThreads, *, name: str) -> None:
        self._completions = completions
        self._threads = threads
        self._calls: SimpleQueue[tuple[Call, Any, Done] | None] = SimpleQueue()
        self._name = name
        self._has_thread = threading.Lock()  # held from the first call until the last is done
        self._started = False
        self._stopped = False

    def run(self, call: Call, argument: Any, done: Done) -> None:
        """Has a call run after those before it; `done` follows on the event loop."""
        self._calls.put((call, argument, done))
        if not self._started:
            self._started = True
            self._has_thread.acquire()
            self._threads.start(self._work, name=self._name)

    def stop(self) -> None:
        """Lets the thread end once it has run what it was given."""
        if not self._stopped:
            self._stopped = True
            self._calls.put(None)

    @property
    def ended(self) -> bool:
        """Whether it has given its thread back, or never took one."""
        return not self._has_thread.locked()

    def join(self, timeout_s: float) -> None:
        """Blocks until it has given its thread back."""
        if self._has_thread.acquire(timeout=timeout_s):
            self._has_thread.release()

    def _work(self) -> None:
        take = self._calls.get
        while (item := take()) is not None:
            self._do(*item)
            del item  # else it would live until the next call
        self._has_thread.release()

    def _do(self, call: Call, argument: Any, done: Done) -> None:
        try:
            result = call(argument)
        except BaseException as error:  # foreign code may even raise SystemExit
            result = error
        self._completions.put(done, argument, result)
