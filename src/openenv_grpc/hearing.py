"""What is heard of an operation before its reply: the progress and the logs of a tool.

A door that wants to hear asks by `hear`, in the place of `sessions.ask`:

    async with aclosing(hear(session, operation)) as heard:
        async for told in heard:
            match told:
                case Reply(): ...  # the last, and always there
                case ToolProgress(): ...
                case ToolLog(): ...

Leaving the block early cancels the operation. Those who use `ask` hear nothing, and nothing is
made for them. A door whose client can be asked holds an `Interview`, and hears what it is asked by
`converse`.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from concurrent.futures import Future
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from openenv_grpc.operations import Operation, Reply
from openenv_grpc.sessions import SessionPort
from openenv_grpc.tools import ToolNotice, ToolQuestion
from openenv_grpc.types import JsonValue

NoticeT = TypeVar("NoticeT")

MAX_WAITING = 1_000
"""Notices that wait for one who listens; beyond that the oldest are dropped."""


class Hearing(Generic[NoticeT]):
    """One who listens to an operation, on the event loop. Implements `Listener`."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._notices: deque[NoticeT] = deque(maxlen=MAX_WAITING)
        self._reply: Reply | None = None
        self._news = asyncio.Event()

    def tell(self, notice: NoticeT) -> None:
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

    async def heard(self) -> AsyncGenerator[NoticeT | Reply, None]:
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


@dataclass(frozen=True, slots=True)
class Asked:
    """What a tool asks, all at once."""

    questions: Sequence[ToolQuestion]


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """That a tool waits no longer for an answer, of an environment in this process."""

    question: ToolQuestion


class Interview(Hearing[ToolNotice | Asked | Withdrawn]):
    """One who listens to an operation whose tool may ask. Implements `Listener` and `Client`."""

    def __init__(self, offers: frozenset[str]) -> None:
        super().__init__()
        self.offers = offers
        """The capabilities that the client has declared."""
        self._asked: list[ToolQuestion] = []
        self._gone = ""
        self._lock = threading.Lock()  # guards both: tools ask from threads of theirs

    def ask(self, questions: Sequence[ToolQuestion]) -> None:
        """Takes questions, from any thread."""
        with self._lock:
            self._asked.extend(questions)
            gone = self._gone
        if gone:
            self.hang_up(gone)
            return
        self.tell(Asked(questions))
        for question in questions:
            question.answered.add_done_callback(partial(self._closed, question))

    def _closed(self, question: ToolQuestion, answered: Future[JsonValue]) -> None:
        if answered.cancelled():
            self.tell(Withdrawn(question))

    def hang_up(self, told: str) -> None:
        """Fails what is not answered, and whatever is asked from now on, with what is told."""
        with self._lock:
            asked, self._asked = self._asked, []
            self._gone = told
        for question in asked:
            question.fail(told)


async def hear(
    session: SessionPort, operation: Operation
) -> AsyncGenerator[ToolNotice | Reply, None]:
    """Submits an operation; yields what its tool tells meanwhile, and at last its reply.

    Closing the generator before the reply, or cancelling what waits for it, cancels the operation.
    """
    hearing: Hearing[ToolNotice] = Hearing()
    operation.listener = hearing
    submitted = _heard(session, operation, hearing)
    async with aclosing(submitted) as heard:
        async for told in heard:
            yield told


async def converse(
    session: SessionPort, operation: Operation, interview: Interview
) -> AsyncGenerator[ToolNotice | Asked | Withdrawn | Reply, None]:
    """Does what `hear` does, and yields what the tool asks. The end of it ends the waiting."""
    operation.listener = operation.client = interview
    submitted = _heard(session, operation, interview)
    try:
        async with aclosing(submitted) as heard:
            async for told in heard:
                yield told
    finally:
        interview.hang_up("the call was cancelled")


async def _heard(
    session: SessionPort, operation: Operation, hearing: Hearing[NoticeT]
) -> AsyncGenerator[NoticeT | Reply, None]:
    session.submit(operation, hearing.answer)
    try:
        async for told in hearing.heard():
            yield told
    finally:
        if not hearing.is_answered:
            session.cancel_operation(operation)
