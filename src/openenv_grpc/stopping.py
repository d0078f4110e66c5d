"""How a server's process comes to its end: signals, of which each asks for more than the last."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

STOP_TASKS_S = 1.0
"""How long tasks that outlive the server are waited for once they are cancelled."""

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stopping_on_signals(
    *, drain: Callable[[], object], stop: Callable[[], object]
) -> Iterator[None]:
    """Calls `drain` at SIGTERM, and `stop` at SIGINT or at a second signal.

    The signal after `stop` ends the process as if nobody handled it.
    """
    loop = asyncio.get_running_loop()
    asked = False

    def ask(number: int) -> None:
        nonlocal asked
        if number == signal.SIGTERM and not asked:
            asked = True
            drain()
            return
        for each in SIGNALS:
            loop.remove_signal_handler(each)
            signal.signal(each, signal.SIG_DFL)
        stop()

    try:
        for number in SIGNALS:
            loop.add_signal_handler(number, ask, number)
    except (NotImplementedError, RuntimeError, ValueError):
        # Windows, or not the main thread: Ctrl-C arrives as KeyboardInterrupt or not at all.
        yield
        return
    try:
        yield
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)


async def all_ended() -> bool:
    """Cancels what still runs; tells whether it ends within a moment."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    left = (await asyncio.wait(others, timeout=STOP_TASKS_S))[1] if others else ()
    return not left
