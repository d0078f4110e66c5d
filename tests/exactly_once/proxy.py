"""A TCP proxy that cuts its connections at random moments, as networks do at the worst ones."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

CHUNK = 64 * 2**10


class Proxy:
    """Stands before one port of this machine. Nothing is cut before a chance is set."""

    def __init__(self, port: int, source: random.Random) -> None:
        self.port = 0
        self.chance = 0.0
        """Of each chunk, either way, to be the last one of its connection."""
        self.cuts = 0
        self.refuses = False
        """Whether new connections are cut at once."""
        self._upstream = port
        self._random = source
        self._open: set[asyncio.StreamWriter] = set()
        self._deaf: set[asyncio.StreamWriter] = set()
        self.connections = 0

    @property
    def connected(self) -> bool:
        """Whether there is a connection."""
        return bool(self._open)

    def cut(self) -> None:
        """Cuts every connection, without a word and whatever is under way."""
        self.cuts += 1
        for writer in self._open:
            writer.transport.abort()

    def deafen(self) -> None:
        """Lets nothing more through to the clients that are connected, though they are heard."""
        self._deaf = set(self._open)

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carries one connection, until either side ends it or it is cut."""
        with contextlib.suppress(OSError, asyncio.CancelledError):
            if self.refuses:
                writer.transport.abort()
                return
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._upstream)
            both = {writer, far_writer}
            self.connections += 1
            self._open |= both
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._pump(reader, far_writer, both))
                    tasks.create_task(self._pump(far_reader, writer, both, to_client=True))
            finally:
                self._open -= both
                for end in both:
                    end.transport.abort()

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        both: set[asyncio.StreamWriter],
        *,
        to_client: bool = False,
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK):
                if to_client and writer in self._deaf:
                    continue
                ends = self._random.random() < self.chance
                if ends:
                    self.cuts += 1
                    data = data[: self._random.choice((0, self._random.randrange(len(data)), None))]
                writer.write(data)
                await writer.drain()
                if ends:
                    break
        for end in both:
            end.transport.abort()


@asynccontextmanager
async def proxied(port: int, source: random.Random) -> AsyncIterator[Proxy]:
    proxy = Proxy(port, source)
    server = await asyncio.start_server(proxy.carry, "127.0.0.1", 0)
    async with server:
        proxy.port = server.sockets[0].getsockname()[1]
        try:
            yield proxy
        finally:
            proxy.cut()
