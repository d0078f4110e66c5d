"""What an environment's code tells while it runs, on a stream: in order, before the outcome."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from openenv_grpc.hearing import MAX_WAITING
from openenv_grpc.operations import Deliver, Operation, Reply
from openenv_grpc.tools import ToolNotice
from openenv_grpc.wire import events


class Reports:
    """Listens to one operation and takes its reply. Implements `Listener`."""

    def __init__(
        self, operation: Operation, say: Callable[[bytes], None], deliver: Deliver
    ) -> None:
        """Says what is told of an operation, and delivers its reply after that."""
        self._operation = operation
        self._say = say
        self._deliver = deliver
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._notices: deque[ToolNotice] = deque(maxlen=MAX_WAITING)
        self._over = False

    def tell(self, notice: ToolNotice) -> None:
        """Takes a notice, from any thread. What comes after the reply is dropped."""
        self._notices.append(notice)
        with suppress(RuntimeError):  # the loop is closed, nobody waits any more
            self._loop.call_soon_threadsafe(self._flush)

    def answer(self, reply: Reply) -> None:
        """Takes the reply. A `Deliver`."""
        self._flush()  # the loop may hear of a reply before it hears of what was told earlier
        self._over = True
        self._deliver(reply)

    def _flush(self) -> None:
        elapsed_s = self._loop.time() - self._began
        while self._notices and not self._over:
            number = self._operation.request_id or 0
            notice = self._notices.popleft()
            self._say(events.reported(notice, request_id=number, elapsed_s=elapsed_s))
