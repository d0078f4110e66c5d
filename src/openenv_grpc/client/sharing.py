"""What a connection shares with a server of the same machine: memory."""

from __future__ import annotations

import logging

from openenv_grpc import shared_memory
from openenv_grpc.errors import NotSupportedError
from openenv_grpc.shared_memory import OfferedSegment
from openenv_grpc.stream import sharing
from openenv_grpc.v1 import session_pb2

logger = logging.getLogger(__name__)


class OfferedSharing:
    """Offers memory with the client's hello. Until the server has taken it, nothing is put there.

    Nor is anything ever where the connection is not to share, or the system cannot.
    """

    def __init__(self) -> None:
        self.agreed = False
        """Whether the server has taken the offer."""
        self._segment: OfferedSegment | None = None
        self._sharing: sharing.Sharing | None = None

    def offer(self, hello: session_pb2.ClientHello) -> None:
        """Makes memory, and offers it."""
        try:
            self._segment = segment = shared_memory.offer()
        except NotSupportedError as error:
            logger.debug("memory is not shared: %s", error)
            return
        self._sharing = sharing.Sharing(segment, session_pb2.Operation)
        offer, message = segment.offer, hello.shared_memory
        message.process_id = offer.process_id
        message.descriptor = offer.descriptor
        message.size_bytes = offer.size_bytes
        message.proof = offer.proof

    def hear(self, hello: session_pb2.ServerHello) -> None:
        """Learns what the server made of the offer."""
        if self._segment is None:
            return
        if hello.shares_memory:
            self._segment.answered()
            self.agreed = True
        else:
            logger.debug("memory is not shared: the server does not want to, or cannot")
            self.close()

    def put(self, operation: bytes) -> bytes:
        """Returns what to send for an operation. See `Sharing`."""
        if self.agreed and self._sharing is not None:
            return self._sharing.put(operation)
        return operation

    def take(self, block: session_pb2.SharedBlock, *, limit_bytes: int) -> bytes:
        """Takes an outcome out. Raises `ProtocolViolationError` if there is none."""
        return sharing.taken(self._sharing, block, limit_bytes=limit_bytes)

    def close(self) -> None:
        """Lets go of the memory. May be called again."""
        self.agreed = False
        if self._sharing is not None:
            self._sharing.close()
        self._segment = self._sharing = None
