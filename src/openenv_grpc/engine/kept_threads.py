"""Threads that have served a session, and wait a moment for the next one."""

from __future__ import annotations

import asyncio
import ctypes
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context

IDLE_S = 1.0
"""How long a thread waits for the next session."""
MAX_IDLE = 64

_IDLE_NAME = "idle thread of openenv"


class KeptThreads:
    """Hands out threads, of which none does two things at a time.

    To start a thread takes as long as all the rest of opening a session, and whoever starts one
    waits until it runs. So one that is done serves again. It is as good as new then: what Python
    keeps for a thread, `threading.local` and context variables, is gone. What libraries keep in C
    may not be, so that the sessions of one environment share no threads with those of another.
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
            while self._idle:
                thread = self._idle.pop()
                if thread.is_alive():  # else something was raised in it
                    return thread
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
        self._handed: Callable[[], None] | None = None
        self._asleep = threading.Lock()  # released when it is handed work, or is to end
        self._asleep.acquire()

    def serve(self, work: Callable[[], None], name: str) -> None:
        """Hands it work, while it waits."""
        self.name = name
        self._handed = work
        self._asleep.release()

    def end(self) -> None:
        """Ends it, while it waits."""
        self._asleep.release()

    def run(self) -> None:
        """Does what it is handed, until there has been nothing for a while."""
        self._asleep.acquire()
        while self._handed is not None:
            work, self._handed = self._handed, None
            Context().run(work)
            del work  # else it would live until the next
            if not _as_good_as_new():
                return
            self.name = _IDLE_NAME
            if self._kept.keep(self):
                self._wait()

    def _wait(self) -> None:
        with suppress(BaseException):  # raised in this thread by code of a session that is over
            if self._asleep.acquire(timeout=IDLE_S):
                return
        # Where it is not among those that wait any more, somebody is about to hand it work.
        if not self._kept.let_go(self) and self._handed is None:
            self._asleep.acquire()


def _as_good_as_new() -> bool:
    """Forgets what code has left with this thread, as its end would. Returns whether it could."""
    if asyncio._get_running_loop() is not None:  # a loop in a greenlet, which goes on
        return False
    ctypes.cast(_thread_state(), ctypes.py_object).value.clear()
    return True


_thread_state = ctypes.pythonapi.PyThreadState_GetDict  # where `threading.local` keeps its values
_thread_state.restype = ctypes.c_void_p  # borrowed, which `py_object` here would not know
