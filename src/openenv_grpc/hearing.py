"""What is heard of an operation before its reply: the progress and the logs of a tool.

A door that wants to hear asks by `hear`, in the place of `sessions.ask`:

    async with aclosing(hear(session, operation)) as heard:
        async for told in heard:
            match told:
                case Reply(): ...  # the last, and always there
                case ToolProgress(): ...
                case ToolLog(): ...

Leaving the block early cancels the operation. Those who use `ask` hear nothing, and nothing is
made for them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import suppress

from openenv_grpc.operations import Operation, Reply
from openenv_grpc.sessions import SessionPort
from openenv_grpc.tools.notices import ToolNotice

MAX_WAITING = 1_000
"""Notices that wait for one who listens; beyond that the oldest are dropped."""


class Hearing:
    """One who listens to an operation, on the event loop. Implements `Listener`."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._notices: deque[ToolNotice] = deque(maxlen=MAX_WAITING)
        self._reply: Reply | None = None
        self._news = asyncio.Event()

    def tell(self, notice: ToolNotice) -> None:
        """Takes a notice, from any thread. What comes after the reply is dropped."""
        self._notices.append(notice)
        with suppress(RuntimeError):  # the loop is closed, nobody waits any more
            self._loop.call_soon_threadsafe(self._news.set)

    def answer(self, reply: Reply) -> None:
        """Takes the reply. A `Deliver`."""
        self._reply = reply
        self._news.set()

    @property
    def is_answered(self) -> bool:
        """Whether the reply has come."""
        return self._reply is not None

    async def heard(self) -> AsyncGenerator[ToolNotice | Reply, None]:
        """Yields notices in their order as they come, and at last the reply."""
        while True:
            await self._news.wait()
            self._news.clear()
            reply = self._reply  # before the notices: all that were told before it are there then
            while self._notices:
                yield self._notices.popleft()
            if reply is not None:
                yield reply
                return


async def hear(
    session: SessionPort, operation: Operation
) -> AsyncGenerator[ToolNotice | Reply, None]:
    """Submits an operation; yields what its tool tells meanwhile, and at last its reply.

    Closing the generator before the reply, or cancelling what waits for it, cancels the operation.
    """
    hearing = Hearing()
    operation.listener = hearing
    session.submit(operation, hearing.answer)
    try:
        async for told in hearing.heard():
            yield told
    finally:
        if not hearing.is_answered:
            session.cancel_operation(operation)
