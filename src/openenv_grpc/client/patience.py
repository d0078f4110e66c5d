"""How long a session's calls are waited for: one timer for all of them, not one for each."""

from __future__ import annotations

import asyncio

from openenv_grpc.client.pending import Call
from openenv_grpc.client.remote_session import no_answer
from openenv_grpc.client.unanswered import Unanswered


class Patience:
    """Ends those calls of a session that are not answered in time."""

    def __init__(self, unanswered: Unanswered) -> None:
        self._unanswered = unanswered
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = 0.0

    def allow(self, call: Call, limit_s: float) -> None:
        """Has a call wait no longer than that."""
        call.limit_s = limit_s
        call.until = until = self._loop.time() + limit_s
        if self._timer is None or until < self._rings_at:
            self.stop()
            self._ring_at(until)

    def stop(self) -> None:
        """Ends none any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring_at(self, time: float) -> None:
        self._rings_at = time
        self._timer = self._loop.call_at(time, self._ring)

    def _ring(self) -> None:
        self._timer = None
        waiting = self._unanswered.calls()
        for call in waiting:
            if call.until <= self._rings_at:
                call.fail(no_answer(call.what, call.limit_s))
        later = [call.until for call in waiting if call.until > self._rings_at]
        if later:
            self._ring_at(min(later))
