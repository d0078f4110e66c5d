"""Messages between a server and an interpreter: JSON behind its size.

The interpreter runs this file by its path: it imports nothing of ours.
"""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

MAX_MESSAGE_BYTES = 32 * 2**20
"""The largest message that either side takes."""

_SIZE = struct.Struct("<I")


class Channel:
    """One end."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection

    def send(self, message: dict[str, Any]) -> None:
        """Sends a message. Raises `ValueError` if JSON has no such value, or it is too large."""
        content = json.dumps(message).encode()
        if len(content) > MAX_MESSAGE_BYTES:
            raise ValueError(f"a value of {len(content)} bytes is too large")
        self._socket.sendall(_SIZE.pack(len(content)) + content)

    def receive(self, timeout_s: float | None = None) -> dict[str, Any]:
        """Waits for a message.

        Raises:
            TimeoutError: none has begun to come in time.
            EOFError: the other end is gone, or has sent something else.
        """
        self._socket.settimeout(timeout_s)
        (size,) = _SIZE.unpack(self._read(_SIZE.size))
        if size > MAX_MESSAGE_BYTES:
            raise EOFError("the message is too large")
        try:
            message = json.loads(self._read(size))
        except ValueError as error:
            raise EOFError("that is no message") from error
        if not isinstance(message, dict):
            raise EOFError("that is no message")
        return message

    def _read(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = self._socket.recv(min(size - len(parts), 2**18))
            if not part:
                raise EOFError("the other end is gone")
            parts += part
        return bytes(parts)
