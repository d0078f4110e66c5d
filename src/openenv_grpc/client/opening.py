"""An opening on its way: how long it is waited for, and what is said while it waits for a slot."""

from __future__ import annotations

import asyncio
import logging

from openenv_grpc.client.remote_session import no_answer
from openenv_grpc.v1 import session_pb2

logger = logging.getLogger(__name__)

QUEUE = "queue"
"""The feature of servers where an opening can wait for a slot."""

OPENING_ID = 1
"""The number of a session's `open`."""

SAY_AFTER_S = 5.0
"""How long an opening waits for a slot before its user is told."""

SAY_AGAIN_S = 60.0


class Opening:
    """Waits for the outcome of an `open`: for longer while the server has it wait for a slot."""

    def __init__(self, *, target: str, queue_timeout_s: float) -> None:
        self._target = target
        self.queue_timeout_s = queue_timeout_s
        self._loop = asyncio.get_running_loop()
        self._answer: asyncio.Future[session_pb2.Outcome] = self._loop.create_future()
        self._limit_s = 0.0
        self._giving_up: asyncio.TimerHandle | None = None
        self._saying: asyncio.TimerHandle | None = None
        self._place: session_pb2.Progress | None = None  # while it waits for a slot

    async def answer_within(
        self, answer: asyncio.Future[session_pb2.Outcome], limit_s: float
    ) -> session_pb2.Outcome:
        """Waits for the outcome, at most `limit_s` beside what it waits for a slot.

        Raises:
            DeadlineExceededError: it did not come in time. It may still come.
        """
        self._answer, self._limit_s = answer, limit_s
        self._allow(limit_s)
        try:
            return await answer
        finally:
            self._stop(self._giving_up)
            self._stop(self._saying)

    def told(self, progress: session_pb2.Progress) -> None:
        """Learns where the opening stands."""
        if self._answer.done():
            return
        if progress.queue_position:
            if self._place is None:
                self._saying = self._loop.call_later(SAY_AFTER_S, self._say, logging.WARNING)
            self._place = progress
            self._allow(self.queue_timeout_s + self._limit_s)
        elif self._place is not None:
            self._place = None
            self._stop(self._saying)
            self._allow(self._limit_s)

    def _allow(self, limit_s: float) -> None:
        """Waits for as long from now on."""
        self._stop(self._giving_up)
        self._giving_up = self._loop.call_later(limit_s, self._give_up, limit_s)

    def _give_up(self, limit_s: float) -> None:
        if not self._answer.done():
            self._answer.set_exception(no_answer("open", limit_s))

    def _say(self, level: int) -> None:
        place = self._place
        if place is not None:
            logger.log(
                level,
                "waiting for a free slot target=%s place=%d session_limit=%d queue_timeout_s=%g",
                self._target,
                place.queue_position,
                place.session_limit,
                self.queue_timeout_s,
            )
            self._saying = self._loop.call_later(SAY_AGAIN_S, self._say, logging.INFO)

    def _stop(self, timer: asyncio.TimerHandle | None) -> None:
        if timer is not None:
            timer.cancel()
