"""`/ws` with subprotocol `openenv-grpc.v1`: the messages of `Connect`, as binary frames."""

from __future__ import annotations

from aiohttp.web import WSMsgType

from openenv_bridge.sockets import Socket
from openenv_grpc import stream
from openenv_grpc.access import Access
from openenv_grpc.errors import OpenEnvError, ProtocolViolationError, Reason
from openenv_grpc.sessions import SessionHost

SUBPROTOCOL = "openenv-grpc.v1"

MAX_MESSAGE_BYTES = 100 * 2**20
"""Of a binary frame: gRPC's limit here."""

PROGRESS_INTERVAL_S = stream.PROGRESS_INTERVAL_S

CLOSE_INTERNAL_ERROR = 1011
CLOSE_CODES = {Reason.PROTOCOL_VIOLATION: 1002, Reason.MESSAGE_TOO_LARGE: 1009}
"""By what ended the stream; 1011 for all else."""


class SocketDuplex:
    """A socket as a stream's source and sink of messages."""

    def __init__(self, socket: Socket) -> None:
        self._socket = socket

    async def read(self) -> bytes | None:
        """Waits for a message.

        Raises:
            ConnectionResetError: the peer has left, which takes answers no more either.
            ProtocolViolationError: it was a text frame.
        """
        received = await self._socket.receive()
        if received is None:
            raise ConnectionResetError("the peer has left")
        if received.type is not WSMsgType.BINARY:
            raise ProtocolViolationError(f"{SUBPROTOCOL} is spoken in binary frames, not text")
        content: bytes = received.data
        return content

    async def write(self, data: bytes) -> None:
        """Sends a message."""
        await self._socket.send_binary(data)


async def serve_binary(
    socket: Socket,
    host: SessionHost,
    access: Access | None = None,
    *,
    limits: stream.StreamLimits | None = None,
) -> None:
    """Serves a socket until either side ends it."""
    try:
        await stream.serve_stream(
            SocketDuplex(socket), host, peer=socket.peer, limits=limits, access=access
        )
    except OpenEnvError as error:
        code = CLOSE_CODES.get(error.reason, CLOSE_INTERNAL_ERROR)
        await socket.close(code, reason=error.message)
