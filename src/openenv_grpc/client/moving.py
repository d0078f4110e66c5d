"""A session with large outcomes moves to a link that it shares with others of the kind.

Small outcomes then do not wait behind its own. It attaches there as it would after a lost stream,
but between two operations, and it leaves its place only once it has the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from openenv_grpc.client.crossing import Crossing, Farewell, Landing
from openenv_grpc.client.link import Stream
from openenv_grpc.client.ride import Berth, Ride, Rider
from openenv_grpc.errors import OpenEnvError
from openenv_grpc.events import log_event

logger = logging.getLogger(__name__)

FindBerth = Callable[[], Awaitable[Berth]]
"""Gives a place on the link for large outcomes. Raises an `OpenEnvError` if there is none."""

FAREWELL_S = 2.0
"""How long what still comes by the stream that was left is waited for."""


AGAIN_S = 60.0
"""How long a session that could not move stays, before it tries again."""


class Moving:
    """Moves one session, once."""

    def __init__(self, ride: Ride, rider: Rider, find: FindBerth, *, target: str) -> None:
        self._ride = ride
        self._rider = rider
        self._find: FindBerth | None = find  # until it has moved, or never will
        self._target = target
        self._loop = asyncio.get_running_loop()
        self._not_before = 0.0
        self._task: asyncio.Task[None] | None = None
        self._landed: asyncio.Future[bool] = self._loop.create_future()
        self._crossing: Crossing | None = None
        self._left: tuple[Stream, int] | None = None  # where it was
        self._farewell = Farewell(rider)
        self._doubtful = False  # whether an `attach` of its own may fence the session yet

    def outgrow(self) -> None:
        """Learns of a large outcome. Moves if there are others who would wait behind the next.

        It does not at the first: sessions that are driven alike are all large after that, and go
        faster by one connection.
        """
        find, now, link = self._find, self._loop.time(), self._ride.berth.link
        if find is None or self._ride.window_s is None:
            return
        if not link.note_large(self._ride) or not link.has_small:
            return
        if now < self._not_before or (self._task is not None and not self._task.done()):
            return
        self._not_before = now + AGAIN_S
        self._landed = self._loop.create_future()
        self._task = self._loop.create_task(self._move(find), name="openenv-grpc moving")

    def retakes(self) -> bool:
        """Attaches anew if an `attach` of its own fenced the session; tells whether one did."""
        doubtful, self._doubtful = self._doubtful, False
        if doubtful:
            self._ride.attach_again()
        return doubtful

    def stop(self) -> None:
        """Moves no more."""
        self._find = None
        self._farewell.heard.set()
        if self._task is not None and not self._landed.done():
            self._landed.cancel()
            self._task.cancel()
        if self._crossing is not None:
            self._crossing.give_up()
            self._crossing = None
            self._forget_place()

    async def stopped(self) -> None:
        """Waits until it moves no more, after `stop`."""
        if self._task is not None:
            await asyncio.wait((self._task,))

    async def _move(self, find: FindBerth) -> None:
        with contextlib.suppress(OpenEnvError):  # which `find` has logged
            other, own = await find(), self._ride.berth
            try:
                self._ride.when_quiet(lambda: self._cross(other))
                if await self._landed:
                    await self._bid_farewell()
            finally:
                await (own if self._ride.berth is other else other).release()

    async def _bid_farewell(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FAREWELL_S):
                await self._farewell.heard.wait()
        self._forget_place()

    def _forget_place(self) -> None:
        if self._left is not None:
            stream, number = self._left
            stream.connection.remove(number)

    def _cross(self, other: Berth) -> None:
        """Attaches on the other link. What is asked of the session meanwhile waits."""
        attach = self._rider.attach()
        if attach is None or not other.link.takes_sessions:
            self._landed.set_result(False)
            return
        self._left = stream, number = self._ride.wait()
        stream.connection.give(number, self._farewell)
        self._crossing = Crossing(other, attach, self._land)
        self._crossing.start()

    def _land(self, landing: Landing) -> None:
        crossing, self._crossing = self._crossing, None
        if crossing is None or self._left is None:
            return
        stream, number = self._left
        if landing is Landing.ATTACHED:
            place = crossing.hand_over(self._rider)
            crossing.other.link.replace(crossing, self._ride)
            self._ride.go_on(crossing.other, *place)
            self._find = None
        else:
            crossing.give_up()
            stream.connection.give(number, self._rider)
            # An earlier one may still be on its way, too.
            self._doubtful = self._doubtful or landing is Landing.DOUBTFUL
            if landing is Landing.REFUSED:  # who answers there does not know the session
                self._find = None
            self._ride.go_back(stream, attach=self._doubtful)
            self._log(crossing.error)
        self._landed.set_result(landing is Landing.ATTACHED)

    def _log(self, error: OpenEnvError | None) -> None:
        log_event(
            logger,
            logging.WARNING,
            "large outcomes stay on the first connection",
            target=self._target,
            reason="no answer" if error is None else error.message,
        )
