"""Where blocking calls run: a thread with a queue, or the event loop itself."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Any, Protocol

from openenv_grpc.engine.kept_threads import KeptThreads
from openenv_grpc.engine.relay import Done, Relay

Call = Callable[[Any], Any]
"""What is run, with one argument."""


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


class ThreadWorker:
    """A thread that is taken by its first call."""

    def __init__(self, relay: Relay, threads: KeptThreads, *, name: str) -> None:
        self._relay = relay
        self._threads = threads
        self._calls: deque[tuple[Call, Any, Done] | None] = deque()
        self._busy = threading.Lock()  # held while it runs calls, or waits for its turn to do so
        self._asleep = threading.Lock()  # released when its turn has come
        self._asleep.acquire()
        self._name = name
        self._has_thread = threading.Lock()  # held from the first call until the last is done
        self._started = False
        self._stopped = False

    def run(self, call: Call, argument: Any, done: Done) -> None:
        """Has a call run after those before it; `done` follows on the event loop."""
        if not self._started:
            self._threads.start(self._work, name=self._name)
            self._has_thread.acquire()
            self._started = True
        self._add((call, argument, done))

    def stop(self) -> None:
        """Lets the thread end once it has run what it was given."""
        if self._started and not self._stopped:
            self._stopped = True
            self._add(None)

    def _add(self, item: tuple[Call, Any, Done] | None) -> None:
        self._calls.append(item)
        if self._busy.acquire(blocking=False):
            self._relay.join(self._asleep.release)

    @property
    def ended(self) -> bool:
        """Whether it has given its thread back, or never took one."""
        return not self._has_thread.locked()

    def join(self, timeout_s: float) -> None:
        """Blocks until it has given its thread back."""
        if self._has_thread.acquire(timeout=timeout_s):
            self._has_thread.release()

    def _work(self) -> None:
        while self._runs_on():
            pass
        self._has_thread.release()

    def _runs_on(self) -> bool:
        """Waits for its turn and does what there is; returns whether that was not its end."""
        self._asleep.acquire()
        self._relay.arrive()
        while self._calls or not self._rests():
            item = self._calls.popleft()
            if item is None:
                return False
            self._do(*item)
            del item  # else it would live until the next call
        return True

    def _rests(self) -> bool:
        """Notes that there is nothing to do; returns whether it stayed so meanwhile."""
        self._busy.release()
        return not self._calls or not self._busy.acquire(blocking=False)

    def _do(self, call: Call, argument: Any, done: Done) -> None:
        begun = monotonic()
        try:
            result = call(argument)
        except BaseException as error:  # foreign code may even raise SystemExit
            result = error
        self._relay.put(done, argument, result, begun=begun)
