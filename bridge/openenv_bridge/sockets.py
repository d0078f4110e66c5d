"""WebSockets as the doors use them: frames in, frames out; pings and the end in one place."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import WSMessage, WSMsgType, web

logger = logging.getLogger(__name__)

PING_INTERVAL_S = 20.0
"""Between pings; whoever is silent from one to the next is taken for gone. As the reference."""

CLOSE_TIMEOUT_S = 5.0
"""How long a close frame of ours waits for the peer's."""

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
        self, response: web.WebSocketResponse, *, peer: str, max_message_bytes: int
    ) -> None:
        self.response = response
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

    async def send_binary(self, content: bytes) -> None:
        """Sends a binary frame, once the peer takes it. Raises `ConnectionError`."""
        await self.response.send_frame(content, WSMsgType.BINARY)

    async def close(self, code: int = CLOSE_OK, *, reason: str = "") -> None:
        """Sends a close frame, and waits a while for the peer's."""
        await self.response.close(code=code, message=reason.encode()[:MAX_REASON_BYTES])

    async def check(self) -> None:
        """Pings the peer; closes the socket if it has not answered the last ping."""
        if self._listening and not self._heard:
            await self.close(CLOSE_SILENT, reason="keepalive ping timeout")
            return
        self._heard = False
        try:
            await self.response.ping()
        except ConnectionError:
            logger.debug("ping not sent peer=%s", self.peer)

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
        self, request: web.Request, *, max_message_bytes: int, protocols: tuple[str, ...] = ()
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
        peer = request.remote or "unix"
        socket = Socket(response, peer=peer, max_message_bytes=max_message_bytes)
        self._open.add(socket)
        try:
            yield socket
        finally:
            self._open.discard(socket)
            await socket.close()

    async def check_all(self) -> None:
        """Pings every socket; closes those that have not answered the last ping."""
        await asyncio.gather(*[socket.check() for socket in self._open])

    async def close_all(self) -> None:
        """Closes every socket since the server stops."""
        await asyncio.gather(*[socket.close(CLOSE_RESTART) for socket in self._open])
