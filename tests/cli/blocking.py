"""An environment whose step says that it has begun, and never ends."""

from __future__ import annotations

import threading

from tests.environments import Count, Countdown, Counted


class Blocking(Countdown):
    """Blocks in its step."""

    def step(self, action: Count, timeout_s: float | None = None) -> Counted:
        print("stepping", flush=True)
        threading.Event().wait()
        return super().step(action, timeout_s)
