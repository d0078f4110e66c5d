"""What waits to be sent on a stream: pieces of messages, joined as far as they are ready."""

from __future__ import annotations

import asyncio
import functools
from collections import deque

from openenv_grpc.wire.varints import varint

COALESCED_BYTES = 256 * 2**10
"""Where a joined message stops. A larger piece goes alone."""


_PIECE = b"\x12"  # field 2, length-delimited: `operations` of a request, `outcomes` of a response


@functools.lru_cache(maxsize=8192)  # sessions have outcomes of the same lengths again and again
def _head(size: int, prefix: bytes) -> bytes:
    return _PIECE + varint(len(prefix) + size) + prefix


def prefix_of(number: int) -> bytes:
    """Writes a session's number on its stream, as operations and outcomes carry it."""
    return b"\x08" + varint(number) if number else b""  # field 1 of both


class Outbox:
    """Collects pieces, and hands out messages. One task takes; any code on the loop puts."""

    def __init__(self, *, limit_bytes: int = COALESCED_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self.size_bytes = 0
        self._pieces: deque[bytes] = deque()
        self._closed = False
        self._taker: asyncio.Future[None] | None = None
        self._room = asyncio.Event()
        self._room.set()

    def put(self, piece: bytes) -> None:
        """Adds a piece. An empty one makes a message of its own if nothing else goes out."""
        self._pieces.append(piece)
        self.size_bytes += len(piece)
        if self._taker is not None:
            self._wake()

    def put_framed(self, content: bytes, prefix: bytes = b"") -> None:
        """Adds an operation or outcome, as an entry of field 2.

        Protobuf joins repeated fields of concatenated messages, so pieces join by concatenation;
        and fields may come in any order, so `prefix` can add one to a message that is serialized
        already.
        """
        self.put(_head(len(content), prefix) + content)

    def close(self) -> None:
        """Has `take` return `None` once all is taken."""
        self._closed = True
        self._wake()

    async def take(self) -> bytes | None:
        """Returns the next message, as soon as there is one; `None` after `close`."""
        while not self._pieces:
            if self._closed:
                return None
            self._taker = asyncio.get_running_loop().create_future()
            await self._taker
        pieces, size = self._pieces, self.size_bytes
        if size <= self.limit_bytes:
            joined = b"".join(pieces)
            pieces.clear()
            self._taken(size)
            return joined
        first = pieces.popleft()
        taken, size = [first], len(first)
        while pieces and size + len(pieces[0]) <= self.limit_bytes:
            size += len(pieces[0])
            taken.append(pieces.popleft())
        self._taken(size)
        return b"".join(taken)  # which copies nothing where there is one

    async def below(self, size_bytes: int) -> None:
        """Waits until less than that is unsent."""
        while self.size_bytes >= size_bytes:
            self._room.clear()
            await self._room.wait()

    def _taken(self, size: int) -> None:
        self.size_bytes -= size
        self._room.set()

    def _wake(self) -> None:
        taker, self._taker = self._taker, None
        if taker is not None and not taker.done():
            taker.set_result(None)
