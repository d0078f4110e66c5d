"""Threads that have served a session, and wait a moment for the next one."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextvars import Context
from queue import Empty, SimpleQueue

IDLE_S = 1.0
"""How long a thread waits for the next session."""
MAX_IDLE = 64

_IDLE_NAME = "idle thread of openenv"


class KeptThreads:
    """Hands out threads, of which none does two things at a time.

    To start a thread takes as long as all the rest of opening a session, and whoever starts one
    waits until it runs. So one that is done serves again. It is as good as new then: what Python
    keeps for a thread, `threading.local` and context variables, is gone; and where code has set
    something for its thread, as a tracer or on which processors it runs, that serves no more. What
    libraries keep in C stays, so that the sessions of one environment share no threads with those
    of another.
    """

    def __init__(self) -> None:
        self._idle: list[KeptThread] = []
        self._lock = threading.Lock()  # guards both of these
        self._stopped = False

    def take(self) -> KeptThread:
        """Returns a thread that waits for work, and that nobody else has.

        Raises:
            RuntimeError: the system gives no more threads.
        """
        with self._lock:
            thread = self._idle.pop() if self._idle else None
        if thread is None:
            thread = KeptThread(self)
            thread.start()
        return thread

    def stop(self) -> None:
        """Ends the threads that wait, and each other one once it is done."""
        with self._lock:
            self._stopped = True
            idle, self._idle = self._idle, []
        for thread in idle:
            thread.end()

    def keep(self, thread: KeptThread) -> bool:
        """Takes a thread back that is done. Returns whether it is to wait."""
        with self._lock:
            if self._stopped or len(self._idle) >= MAX_IDLE:
                return False
            self._idle.append(thread)
            return True

    def let_go(self, thread: KeptThread) -> bool:
        """Takes a thread out of those that wait. Returns whether it was there."""
        with self._lock:
            if thread not in self._idle:
                return False
            self._idle.remove(thread)
            return True


class KeptThread(threading.Thread):
    """A daemon, so that work which never returns cannot keep the process alive."""

    def __init__(self, kept: KeptThreads) -> None:
        super().__init__(name=_IDLE_NAME, daemon=True)
        self._kept = kept
        self._work: Callable[[], None] | None = None  # that it was handed
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._ends = False
        self._waits = True  # and so has begun no work

    def serve(self, work: Callable[[], None], name: str) -> None:
        """Hands it work, while it waits."""
        self.name = name
        self._work = work
        self._bell.put(None)

    def end(self) -> None:
        """Ends it, while it waits."""
        self._ends = True
        self._bell.put(None)

    def run(self) -> None:
        """Does what it is handed, until there has been nothing for a while."""
        while True:
            try:
                self._serve()
                return
            except BaseException:
                if not self._waits:
                    raise
                # Somebody has raised it here, for a call that is over. Who has taken the thread
                # meanwhile counts on it.
                if self._kept.let_go(self):
                    return

    def _serve(self) -> None:
        began_with = _settings()
        while (work := self._handed()) is not None:
            _probe.used = True
            self._waits = False
            Context().run(work)
            self._work = work = None  # else it would live until the next
            if not _forgets() or _settings() != began_with:
                return
            self.name = _IDLE_NAME
            self._waits = True
            if not self._kept.keep(self):
                return

    def _handed(self) -> Callable[[], None] | None:
        """Waits for work."""
        limit_s: float | None = IDLE_S
        while self._work is None and not self._ends:
            try:
                self._bell.get(timeout=limit_s)
            except Empty:
                if self._kept.let_go(self):
                    return None
                limit_s = None  # somebody has taken it, and is about to hand it work
        return self._work


_probe = threading.local()


def _forgets() -> bool:
    """Forgets what code has left with this thread, as its end would. Returns whether it could.

    From Python 3.13 on what `threading.local` keeps is out of reach, so that threads serve once.
    """
    if asyncio._get_running_loop() is not None:  # a loop in a greenlet, which goes on
        return False
    ctypes.cast(_thread_state(), ctypes.py_object).value.clear()
    return not vars(_probe)


def _settings() -> tuple[object, ...]:
    """Returns what code may have set for this thread alone, beside what it keeps there."""
    found: tuple[object, ...] = (
        len(vars(threading.current_thread())),
        sys.gettrace(),
        sys.getprofile(),
        sys.get_asyncgen_hooks(),
        sys.get_coroutine_origin_tracking_depth(),
    )
    if sys.platform == "linux":  # where these are a thread's own
        found += (
            signal.pthread_sigmask(signal.SIG_BLOCK, ()),
            os.sched_getaffinity(0),
            os.getpriority(os.PRIO_PROCESS, 0),
        )
    return found


_thread_state = ctypes.pythonapi.PyThreadState_GetDict  # where `threading.local` keeps its values
_thread_state.restype = ctypes.c_void_p  # borrowed, which `py_object` here would not know
