"""Time, as the engine reads and waits for it. An event loop is one; tests bring their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Timer(Protocol):
    """A call that is due later."""

    def cancel(self) -> None:
        """Has the call not happen."""
        ...


class Clock(Protocol):
    """Tells the time and wakes up."""

    def time(self) -> float:
        """Seconds since some moment."""
        ...

    def call_later(self, delay: float, callback: Callable[..., Any], *arguments: Any) -> Timer:
        """Has a call happen once `delay` seconds have passed."""
        ...
