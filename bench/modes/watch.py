"""Time and processor time of both sides, and quantiles."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from bench.jobs import Measured
from bench.proc import processor_s


def quantile(ordered: Sequence[float], part: float) -> float:
    """Returns a quantile of ordered values."""
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


class Watch:
    """Runs from its making on."""

    def __init__(self, server: int) -> None:
        """Starts it; `server` is the process of the server, or 0 if all happens in this one."""
        self._server = server
        self._server_s, self._client_s = self._used()
        self.start = time.perf_counter()

    def _used(self) -> tuple[float, float]:
        server = processor_s(self._server) if self._server else 0.0
        return server, processor_s(os.getpid())

    def elapsed_s(self) -> float:
        """Returns the seconds since it was started."""
        return time.perf_counter() - self.start

    def measured(self, steps: int) -> Measured:
        """Returns what so many steps took.

        Raises:
            RuntimeError: there were none.
        """
        if steps == 0:
            raise RuntimeError("no step ended in time: measure for longer (--seconds)")
        elapsed = self.elapsed_s()
        server, client = self._used()
        found = {
            "steps_per_s": steps / elapsed,
            "client_us_per_step": (client - self._client_s) / steps * 1e6,
        }
        if self._server:
            found["server_us_per_step"] = (server - self._server_s) / steps * 1e6
        return found
