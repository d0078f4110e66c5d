"""A TCP proxy as they stand before servers: it swallows pings, or cuts what is silent for long."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

CHUNK = 64 * 2**10

_PREFACE_BYTES = 24
_HTTP2_HEADER_BYTES = 9
_HTTP2_PING = 6
_WEBSOCKET_PINGS = (9, 10)


class Frames:
    """One direction of a connection, taken apart."""

    def __init__(self, scheme: str, *, from_client: bool) -> None:
        self._http2 = scheme == "grpc"
        self._begun = self._http2 and not from_client  # whether the next bytes are a frame
        self._kept = bytearray()

    def take(self, data: bytes) -> Iterator[tuple[bytes, bool]]:
        """Gives each whole frame, and whether it is a ping or the answer to one."""
        self._kept += data
        while 0 < (size := self._size()) <= len(self._kept):
            frame = bytes(self._kept[:size])
            del self._kept[:size]
            yield frame, self._begun and self._is_ping(frame)
            self._begun = True

    def _size(self) -> int:
        """Returns how long the next frame is; 0 if that is not known yet."""
        kept = self._kept
        if self._http2:
            if not self._begun:
                return _PREFACE_BYTES
            known = len(kept) >= _HTTP2_HEADER_BYTES
            return _HTTP2_HEADER_BYTES + int.from_bytes(kept[:3]) if known else 0
        if not self._begun:
            return kept.find(b"\r\n\r\n") + 4 if b"\r\n\r\n" in kept else 0
        if len(kept) < 2:
            return 0
        length, masked = kept[1] & 0x7F, kept[1] >> 7
        wide = {126: 2, 127: 8}.get(length, 0)
        if len(kept) < 2 + wide:
            return 0
        return 2 + wide + 4 * masked + (int.from_bytes(kept[2 : 2 + wide]) if wide else length)

    def _is_ping(self, frame: bytes) -> bool:
        return frame[3] == _HTTP2_PING if self._http2 else frame[0] & 0x0F in _WEBSOCKET_PINGS


class QuietProxy:
    """Stands before one port of this machine."""

    def __init__(self, scheme: str, port: int) -> None:
        self.port = 0
        self.swallows = False
        """Whether pings and their answers get lost here."""
        self.silence_s: float | None = None
        """How long nothing may pass before a connection is cut; `None` for any time."""
        self.connections = self.cuts = self.pongs = 0
        """`pongs` counts pings and answers of clients."""
        self._scheme = scheme
        self._upstream = port

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carries one connection until either side ends it or it has been silent."""
        with contextlib.suppress(OSError, asyncio.CancelledError):
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._upstream)
            self.connections += 1
            ends = (writer.transport, far_writer.transport)
            connection = _Carried(self, *ends)
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(connection.pump(reader, far_writer, from_client=True))
                    tasks.create_task(connection.pump(far_reader, writer, from_client=False))
            finally:
                connection.stop()

    def filter(self, frames: Frames, data: bytes, *, from_client: bool) -> bytes:
        """Returns what of some bytes passes."""
        passing = bytearray()
        for frame, is_ping in frames.take(data):
            self.pongs += is_ping and from_client
            if not (is_ping and self.swallows):
                passing += frame
        return bytes(passing)

    def frames(self, *, from_client: bool) -> Frames:
        """Takes a direction of a new connection apart."""
        return Frames(self._scheme, from_client=from_client)


class _Carried:
    """One connection, and the timer that ends it."""

    def __init__(self, proxy: QuietProxy, *ends: asyncio.WriteTransport) -> None:
        self._proxy = proxy
        self._ends = ends
        self._timer: asyncio.TimerHandle | None = None

    async def pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, from_client: bool
    ) -> None:
        frames = self._proxy.frames(from_client=from_client)
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK):
                passing = self._proxy.filter(frames, data, from_client=from_client)
                if passing:
                    self._passed()
                    writer.write(passing)
                    await writer.drain()
        self.stop()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for end in self._ends:
            end.abort()

    def _passed(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._proxy.silence_s is not None:
            self._timer = asyncio.get_running_loop().call_later(self._proxy.silence_s, self._cut)

    def _cut(self) -> None:
        self._proxy.cuts += 1
        self.stop()


@asynccontextmanager
async def quiet_proxy(scheme: str, port: int) -> AsyncIterator[QuietProxy]:
    proxy = QuietProxy(scheme, port)
    async with await asyncio.start_server(proxy.carry, "127.0.0.1", 0) as server:
        proxy.port = server.sockets[0].getsockname()[1]
        yield proxy
