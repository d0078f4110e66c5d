"""Where blocking calls run: a thread with a queue, or the event loop itself."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
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
        self._calls: list[tuple[Call, Any, Done] | None] = []  # hardly ever more than one
        self._busy = threading.Lock()  # held while it runs calls, or waits for its turn to do so
        self._asleep = threading.Lock()  # released when its turn has come
        self._name = name
        self._has_thread = threading.Lock()  # held from the first call until the last is done
        self._wake: Callable[[], None] | None = None  # once it has a thread
        self._stopped = False

    def run(self, call: Call, argument: Any, done: Done) -> None:
        """Has a call run after those before it; `done` follows on the event loop."""
        if self._wake is None:
            thread = self._threads.take()
            self._has_thread.acquire()
            self._wake = partial(thread.serve, self._work, self._name)
        self._add(self._wake, (call, argument, done))

    def stop(self) -> None:
        """Lets the thread end once it has run what it was given."""
        if self._wake is not None and not self._stopped:
            self._stopped = True
            self._add(self._wake, None)

    def _add(self, wake: Callable[[], None], item: tuple[Call, Any, Done] | None) -> None:
        self._calls.append(item)
        if self._busy.acquire(blocking=False):
            self._wake = self._asleep.release  # the first time it is handed to its thread
            self._relay.join(wake)

    @property
    def ended(self) -> bool:
        """Whether it has given its thread back, or never took one."""
        return not self._has_thread.locked()

    def join(self, timeout_s: float) -> None:
        """Blocks until it has given its thread back."""
        if self._has_thread.acquire(timeout=timeout_s):
            self._has_thread.release()

    def _work(self) -> None:
        try:
            while self._runs_on():
                pass
        finally:
            self._has_thread.release()

    def _runs_on(self) -> bool:
        """Waits for its turn and does what there is; returns whether that was not its end."""
        try:
            self._asleep.acquire()
        finally:  # what somebody has raised in this thread meanwhile ends it, and nobody else
            self._relay.arrive()
        while self._calls or not self._rests():
            item = self._calls.pop(0)
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
