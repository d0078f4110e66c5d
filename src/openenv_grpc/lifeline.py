"""Sees to it that a process of ours, and what it started, end when the server does."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import sys
import threading
from contextlib import suppress

_SET_SIGNAL = 10  # F_SETSIG
_LOOK_MS = 1_000

_held: set[int] = set()


def hold() -> tuple[int, int]:
    """Makes a lifeline.

    Returns:
        The end that a worker is tied to, and the one that the server holds until `let_go`.
    """
    far_end, end = os.pipe()
    _held.add(end)
    return far_end, end


def let_go(end: int) -> None:
    """Closes the server's end: who is tied to the other one ends."""
    _held.discard(end)
    os.close(end)


def _let_go_in_fork() -> None:
    """Closes what a forked process has of the server's ends, as only the server's life counts."""
    for end in _held:
        with suppress(OSError):
            os.close(end)
    _held.clear()


os.register_at_fork(after_in_child=_let_go_in_fork)


def tie(lifeline: int, *, parent: int) -> None:
    """Ties the process group of this process to the other end of a pipe, which its parent holds.

    Nothing is ever written to the pipe: what can be read from it is its end. A thread waits for
    that. Where the system is Linux, the kernel sees to it too, as a thread does not get to run
    while something computes without letting go of the interpreter. It ends all of the group at
    once. A signal on the parent's death (PR_SET_PDEATHSIG) would not do: it reaches this process
    alone, may come before the pipe's end, and then nobody ends what this process has started.
    """
    if sys.platform == "linux":
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(lifeline, _SET_SIGNAL, signal.SIGKILL)
        flags = fcntl.fcntl(lifeline, fcntl.F_GETFL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, flags | os.O_ASYNC)
    if os.getppid() != parent:
        os._exit(1)
    threading.Thread(
        target=_watch, args=(lifeline, parent), name="openenv lifeline", daemon=True
    ).start()


def _watch(lifeline: int, parent: int) -> None:
    """Waits for the pipe's end, and looks for the parent, whose copies may keep the pipe open."""
    ending = select.poll()
    ending.register(lifeline, select.POLLIN)
    while os.getppid() == parent and not ending.poll(_LOOK_MS):
        pass
    os.killpg(0, signal.SIGKILL)
