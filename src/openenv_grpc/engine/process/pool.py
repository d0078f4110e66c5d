"""The worker processes of one environment: some wait for a session, some have one, some end."""

from __future__ import annotations

import asyncio
from collections import deque

from openenv_grpc.engine.process.child import Child
from openenv_grpc.engine.process.frames import FrameKind
from openenv_grpc.operations import Codec


class ProcessPool:
    """Starts worker processes ahead of need, and sees to their end."""

    def __init__(self, recipe: bytes, *, size: int, end_timeout_s: float) -> None:
        self._recipe = recipe
        self._size = size
        self._end_timeout_s = end_timeout_s
        self._all: set[Child] = set()
        self._waiting: deque[Child] = deque()
        self._codec_modules: dict[str, None] = {}
        self._stopped = False
        self._refill()

    @property
    def idle(self) -> int:
        """How many processes wait for a session."""
        return len(self._waiting)

    @property
    def codec_modules(self) -> list[str]:
        """What operations have needed so far, so that sessions to come need not import it."""
        return list(self._codec_modules)

    def note_codec(self, codec: Codec) -> None:
        """Notes that operations come with a codec."""
        self._codec_modules[type(codec).__module__] = None

    def take(self) -> Child:
        """Returns a worker process for one session; it may still be starting."""
        child = self._waiting.popleft() if self._waiting else self._start()
        asyncio.get_running_loop().call_soon(self._refill)
        return child

    def end(self, child: Child) -> None:
        """Lets a process end that has nothing left to do; ends it if it does not."""
        loop = asyncio.get_running_loop()
        timer = loop.call_later(self._end_timeout_s, child.kill)
        child.ended.add_done_callback(lambda _: timer.cancel())

    async def stop(self) -> None:
        """Ends all processes and waits until they are gone."""
        self._stopped = True
        for child in self._waiting:
            if child.warm.is_set():
                child.send(FrameKind.CLOSE)
                self.end(child)
            else:
                child.kill()
        self._waiting.clear()
        if self._all:
            await asyncio.wait({child.ended for child in self._all})

    def _refill(self) -> None:
        while len(self._waiting) < self._size and not self._stopped:
            self._waiting.append(self._start())

    def _start(self) -> Child:
        child = Child(self._recipe, self._gone)
        self._all.add(child)
        return child

    def _gone(self, child: Child) -> None:
        # Another takes its place when one is taken: if it cannot even be imported, there is no end.
        self._all.discard(child)
        if child in self._waiting:
            self._waiting.remove(child)
