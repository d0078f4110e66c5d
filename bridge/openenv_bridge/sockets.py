"""WebSockets as the doors use them: frames in, frames out; pings and the end in one place."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from aiohttp import web
from aiohttp.web import WSMsgType

from openenv_bridge.responses import peer_of
from openenv_grpc.events import log_event
from openenv_grpc.metrics import Traffic

if TYPE_CHECKING:
    from aiohttp import WSMessage

logger = logging.getLogger(__name__)

PING_INTERVAL_S = 20.0
"""Between pings, and from each to when who has not answered is taken for gone. As the reference."""

CLOSE_TIMEOUT_S = 5.0
"""How long a close frame of ours waits for the peer to read, and to answer with its own."""

CLOSE_OK = 1000
CLOSE_TOO_BIG = 1009
CLOSE_SILENT = 1011
CLOSE_RESTART = 1012

MAX_REASON_BYTES = 123
"""A close frame's reason has no more."""

READ_BEYOND_BYTES = 16 * 2**20
"""How far past its limit a message is read, so that its sender can be told rather than cut off."""


class Socket:
    """One WebSocket, with its handshake done."""

    def __init__(
        self,
        response: web.WebSocketResponse,
        transport: asyncio.Transport | None,
        traffic: Traffic,
        *,
        peer: str,
        max_message_bytes: int,
    ) -> None:
        self.response = response
        self._transport = transport
        self._traffic = traffic
        self._unsent_bytes = 0
        self.peer = peer
        self._max_message_bytes = max_message_bytes
        self._listening = False
        self._heard = True

    async def receive(self) -> WSMessage | None:
        """Waits for a text or binary frame; `None` when the socket has ended."""
        self._listening = True
        try:
            while True:
                received = await self.response.receive()
                self._heard = True
                match received.type:
                    case WSMsgType.TEXT | WSMsgType.BINARY:
                        self._traffic.received_bytes += len(received.data)
                        if self._is_too_big(received.data):
                            await self.close(CLOSE_TOO_BIG)
                            return None
                        return received
                    case WSMsgType.PING:
                        await self.response.pong(received.data)
                    case WSMsgType.PONG:
                        continue
                    case _:
                        return None
        except ConnectionError:
            return None
        finally:
            self._listening = False

    async def send_text(self, content: bytes) -> None:
        """Sends a text frame, once the peer takes it. Raises `ConnectionError`."""
        await self.response.send_frame(content, WSMsgType.TEXT)
        self._traffic.sent_bytes += len(content)

    async def send_binary(self, content: bytes) -> None:
        """Sends a binary frame, once the peer takes it. Raises `ConnectionError`."""
        await self.response.send_frame(content, WSMsgType.BINARY)
        self._traffic.sent_bytes += len(content)

    async def close(self, code: int = CLOSE_OK, *, reason: str = "") -> None:
        """Sends a close frame, and waits a while for the peer's. Cuts off who does not read."""
        message = reason.encode()[:MAX_REASON_BYTES]
        respite_s = CLOSE_TIMEOUT_S  # for what was sent before
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                ours = await self.response.close(code=code, message=message, drain=False)
        except TimeoutError:
            ours, respite_s = True, 0
        if ours and self._transport is not None and self._transport.get_write_buffer_size():
            # Else it would wait for its peer for ever, and whoever sends on it too.
            asyncio.get_running_loop().call_later(respite_s, self._transport.abort)

    async def ping(self) -> None:
        """Asks the peer for a sign of life."""
        self._heard = False
        self._unsent_bytes = self._write_buffer_bytes
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self.response.ping()
        except (ConnectionError, TimeoutError):
            log_event(logger, logging.DEBUG, "ping not sent", peer=self.peer)

    async def check(self) -> None:
        """Closes the socket if the peer has not answered the last ping, or read nothing since."""
        stalled = 0 < self._write_buffer_bytes == self._unsent_bytes
        if stalled or (self._listening and not self._heard):
            await self.close(CLOSE_SILENT, reason="keepalive ping timeout")

    @property
    def _write_buffer_bytes(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def _is_too_big(self, content: str | bytes) -> bool:
        limit = self._max_message_bytes
        if isinstance(content, str) and len(content) * 4 > limit:  # 4 bytes a character at most
            content = content.encode()
        return len(content) > limit


class Sockets:
    """All open sockets of a bridge."""

    def __init__(self) -> None:
        self._open: set[Socket] = set()

    @asynccontextmanager
    async def accept(
        self,
        request: web.Request,
        traffic: Traffic,
        *,
        max_message_bytes: int,
        protocols: tuple[str, ...] = (),
    ) -> AsyncIterator[Socket]:
        """Does the handshake, and closes the socket at the end of the block if it is still open."""
        response = web.WebSocketResponse(
            timeout=CLOSE_TIMEOUT_S,
            autoping=False,
            compress=False,
            max_msg_size=max_message_bytes + READ_BEYOND_BYTES,
            protocols=protocols,
        )
        await response.prepare(request)
        peer = peer_of(request)
        socket = Socket(
            response, request.transport, traffic, peer=peer, max_message_bytes=max_message_bytes
        )
        self._open.add(socket)
        try:
            yield socket
        finally:
            self._open.discard(socket)
            await socket.close()

    async def ping_all(self) -> None:
        """Pings every socket."""
        await asyncio.gather(*[socket.ping() for socket in self._open])

    async def check_all(self) -> None:
        """Closes those whose peers have not answered the last ping."""
        await asyncio.gather(*[socket.check() for socket in self._open])

    async def close_all(self) -> None:
        """Closes every socket since the server stops."""
        await asyncio.gather(*[socket.close(CLOSE_RESTART) for socket in self._open])
