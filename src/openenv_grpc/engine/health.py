"""Whether a server takes new work: not once it drains, nor while too many of its threads hang."""

from __future__ import annotations

import asyncio


class Health:
    """What health checks are told."""

    def __init__(self, *, max_stuck: int) -> None:
        self._max_stuck = max_stuck
        self._stuck = 0
        self._drain = asyncio.Event()
        self._change: asyncio.Future[None] | None = None

    def note_stuck(self, count: int) -> None:
        """Learns how many calls run on although their session was given up."""
        self._stuck = count
        self._wake()

    @property
    def draining(self) -> bool:
        """Whether `drain` was called."""
        return self._drain.is_set()

    @property
    def serving(self) -> bool:
        """Whether new work is welcome."""
        return not self.draining and self._stuck <= self._max_stuck

    def drain(self) -> None:
        """Takes no more work."""
        self._drain.set()
        self._wake()

    async def until_draining(self) -> None:
        """Waits for `drain`."""
        await self._drain.wait()

    def _wake(self) -> None:
        change, self._change = self._change, None
        if change is not None and not change.done():
            change.set_result(None)

    async def changed(self) -> None:
        """Waits until something may have changed."""
        if self._change is None:
            self._change = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._change)
