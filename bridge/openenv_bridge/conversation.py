"""One message at a time: what a peer asks is answered in the order in which it was asked."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from openenv_bridge import errors
from openenv_bridge.sockets import Socket
from openenv_grpc.operations import Operation, Reply
from openenv_grpc.sessions import SessionPort

if TYPE_CHECKING:
    from aiohttp import WSMessage

MAX_WAITING = 32
"""Messages that wait for their turn; past it the socket is not read."""

MAX_WAITING_BYTES = 2**20
"""The same for their size."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A message that becomes an operation."""

    session: SessionPort
    operation: Operation
    is_last: bool = False
    """Whether its reply ends the conversation, without a word."""


Plan = bytes | Ask | None
"""What a message leads to: an answer, an operation that will give one, or the end."""


class Conversation:
    """Reads a socket ahead, has one message done after the other, and sends the answers.

    It goes on reading while an operation runs, and so notices at once when the peer leaves.
    """

    def __init__(self, socket: Socket, plan: Callable[[WSMessage], Plan]) -> None:
        self._socket = socket
        self._plan = plan
        self._waiting: deque[WSMessage] = deque()
        self._waiting_bytes = 0
        self._answers: deque[bytes] = deque()
        self._running = False  # an operation has no reply yet
        self._over = False
        self._turn: asyncio.Future[None] | None = None
        self._room = asyncio.Event()

    async def run(self) -> None:
        """Talks until either side ends it. The socket is left open."""
        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(self._read())
            try:
                await self._write()
            finally:
                reading.cancel()

    def end(self, last_words: bytes = b"") -> None:
        """Ends the conversation, after what is to be said still."""
        if self._over:
            return
        if last_words:
            self._answers.append(last_words)
        self._over = True
        self._room.set()
        self._wake()

    def opened(self, reply: Reply) -> None:
        """Takes the outcome of the session's opening: if it failed, that is all there is to say."""
        if reply.error is not None:
            self.end(reply.content)

    def say(self, words: bytes) -> None:
        """Says something that nobody asked for."""
        if not self._over:
            self._answers.append(words)
            self._wake()

    def deliver(self, reply: Reply) -> None:
        """Takes the answer of the operation that runs."""
        self._running = False
        if reply.error is not None and errors.ws_code(reply.error) in errors.CLOSING_CODES:
            self.end(reply.content)
        elif not self._over:
            self._answers.append(reply.content)
            self._wake()

    def _finish(self, reply: Reply) -> None:
        """Takes the answer of the last operation: only what went wrong is told."""
        self.end(b"" if reply.error is None else reply.content)

    async def _read(self) -> None:
        while (message := await self._socket.receive()) is not None:
            self._waiting.append(message)
            self._waiting_bytes += len(message.data)
            self._advance()
            while self._is_full() and not self._over:
                self._room.clear()
                await self._room.wait()
        self._answers.clear()
        self.end()

    async def _write(self) -> None:
        try:
            while True:
                while self._answers:
                    await self._socket.send_text(self._answers.popleft())
                if self._over:
                    return
                self._advance()
                if not self._answers and not self._over:
                    self._turn = asyncio.get_running_loop().create_future()
                    await self._turn
        except ConnectionError:
            return

    def _advance(self) -> None:
        """Takes the next messages, unless one is under way."""
        while self._waiting and not (self._running or self._answers or self._over):
            message = self._waiting.popleft()
            self._waiting_bytes -= len(message.data)
            self._take(message)
            self._room.set()

    def _take(self, message: WSMessage) -> None:
        match self._plan(message):
            case None:
                self.end()
            case Ask(session, operation, is_last):
                self._running = True
                session.submit(operation, self._finish if is_last else self.deliver)
            case bytes() as answer:
                self._answers.append(answer)
                self._wake()

    def _is_full(self) -> bool:
        return len(self._waiting) >= MAX_WAITING or self._waiting_bytes >= MAX_WAITING_BYTES

    def _wake(self) -> None:
        if self._turn is not None and not self._turn.done():
            self._turn.set_result(None)
