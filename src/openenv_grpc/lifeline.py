"""Sees to it that a process of ours, and what it started, end when the server does."""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import sys
import threading

_SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
_SET_SIGNAL = 10  # F_SETSIG


def tie(lifeline: int, *, parent: int) -> None:
    """Ties the process group of this process to the other end of a pipe, which its parent holds.

    Nothing is ever written to the pipe: what can be read from it is its end. A thread waits for
    that. Where the system is Linux, the kernel sees to it too, as a thread does not get to run
    while something computes without letting go of the interpreter.
    """
    if sys.platform == "linux":
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(lifeline, _SET_SIGNAL, signal.SIGKILL)
        flags = fcntl.fcntl(lifeline, fcntl.F_GETFL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, flags | os.O_ASYNC)
        # The pipe stays open as long as any process that the server forked has it. This signal
        # comes in any case: when the thread ends that started this process, and waits for its end.
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    threading.Thread(target=_watch, args=(lifeline,), name="openenv lifeline", daemon=True).start()


def _watch(lifeline: int) -> None:
    while os.read(lifeline, 1):
        pass
    os.killpg(0, signal.SIGKILL)
