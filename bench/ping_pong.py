"""A question and an answer over loopback by uvloop alone: the limit of this machine in Python.

`python -m bench.ping_pong` prints READY and the port once it listens. A question has 80 bytes, of
which the first four tell how long the answer is to be.
"""

from __future__ import annotations

import asyncio
import struct
from typing import Any, Self, cast

QUESTION_BYTES = 80
LENGTH = struct.Struct("<I")


class Answering(asyncio.Protocol):
    """Answers questions, each with as many bytes as it asks for."""

    def __init__(self) -> None:
        self._answer = b""
        self._unread = bytearray()
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._unread += data
        while len(self._unread) >= QUESTION_BYTES:
            size = LENGTH.unpack_from(self._unread)[0]
            del self._unread[:QUESTION_BYTES]
            if len(self._answer) != size:
                self._answer = bytes(size)
            self._transport.write(self._answer)


class Asking(asyncio.Protocol):
    """Counts the bytes of an answer."""

    def __init__(self) -> None:
        self._missing = 0
        self._answered: asyncio.Future[None]
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def ask(self, size: int) -> asyncio.Future[None]:
        """Asks for an answer of a size, and returns what is done once it is there."""
        self._missing = size
        self._answered = asyncio.get_running_loop().create_future()
        self.transport.write(LENGTH.pack(size).ljust(QUESTION_BYTES, b"q"))
        return self._answered

    def data_received(self, data: bytes) -> None:
        self._missing -= len(data)
        if self._missing == 0:
            self._answered.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._missing > 0 and not self._answered.done():
            self._answered.set_exception(ConnectionError("the server closed the connection"))


class PingPongClient:
    """Asks as a client of an environment steps."""

    def __init__(self, *, base_url: str) -> None:
        host, _, port = base_url.rpartition("/")[2].rpartition(":")
        self._host, self._port = host, int(port)
        self._asking: Asking

    async def connect(self) -> Self:
        loop = asyncio.get_running_loop()
        _, self._asking = await loop.create_connection(Asking, self._host, self._port)
        return self

    async def reset(self) -> None:
        await self._asking.ask(QUESTION_BYTES)

    async def step(self, action: dict[str, Any]) -> None:
        message = str(action["message"])
        await self._asking.ask(int(message) if message.isdecimal() else QUESTION_BYTES)

    async def close(self) -> None:
        self._asking.transport.close()


async def serve() -> None:
    """Serves until it is stopped."""
    server = await asyncio.get_running_loop().create_server(Answering, "127.0.0.1", 0)
    print(f"READY http=127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    import uvloop

    uvloop.run(serve())
