"""Large messages of a stream, handed over in memory that both of its ends have mapped."""

from __future__ import annotations

import logging

from openenv_grpc import shared_memory
from openenv_grpc.errors import MessageTooLargeError, NotSupportedError, ProtocolViolationError
from openenv_grpc.shared_memory import Block, Segment
from openenv_grpc.v1 import session_pb2

logger = logging.getLogger(__name__)

LEAST_BYTES = 64 * 2**10
"""From which size on a message goes through memory. Below, the connection is as quick."""

Message = session_pb2.ConnectRequest | session_pb2.ConnectResponse


class Sharing:
    """Puts messages into the memory, and takes them out. For one stream, which owns the memory."""

    def __init__(self, segment: Segment, envelope: type[Message]) -> None:
        self._segment = segment
        self._envelope = envelope  # what is sent from here

    def put(self, data: bytes) -> bytes:
        """Returns what to send: a small message as it is, for a large one where it lies.

        Where there is no room the large one goes over the connection, too.
        """
        if len(data) < LEAST_BYTES:
            return data
        block = self._segment.put(data)
        if block is None:
            return data
        message = self._envelope()
        message.shared_block.offset = block.offset
        message.shared_block.size_bytes = block.size_bytes
        message.shared_block.generation = block.generation
        return message.SerializeToString()

    def take(self, block: session_pb2.SharedBlock, *, limit_bytes: int) -> bytes:
        """Takes a message out of the memory.

        Raises:
            ProtocolViolationError: there is none, or none any more.
            MessageTooLargeError: it is larger than the limit.
        """
        if block.size_bytes > limit_bytes:
            raise MessageTooLargeError(
                f"a message of {block.size_bytes} bytes lies in the shared memory, and "
                f"{limit_bytes} are taken"
            )
        return self._segment.take(Block(block.offset, block.size_bytes, block.generation))

    def close(self) -> None:
        """Lets go of the memory."""
        self._segment.close()


def accept(client: session_pb2.ClientHello, *, max_bytes: int) -> Sharing | None:
    """Opens the memory that a client offers; `None` if it does not, or that cannot be."""
    if not max_bytes or not client.HasField("shared_memory"):
        return None
    offered = client.shared_memory
    offer = shared_memory.Offer(
        process_id=offered.process_id,
        descriptor=offered.descriptor,
        size_bytes=offered.size_bytes,
        proof=offered.proof,
    )
    try:
        segment = shared_memory.accept(offer, max_bytes=max_bytes)
    except NotSupportedError as error:
        logger.debug("memory is not shared: %s", error)
        return None
    return Sharing(segment, session_pb2.ConnectResponse)


def taken(sharing: Sharing | None, block: session_pb2.SharedBlock, *, limit_bytes: int) -> bytes:
    """Takes a message out of the memory that is shared, if it is.

    Raises:
        ProtocolViolationError: no memory is shared, or no such block is in it.
        MessageTooLargeError: it is larger than the limit.
    """
    if sharing is None:
        raise ProtocolViolationError("a message names shared memory, and none is shared here")
    return sharing.take(block, limit_bytes=limit_bytes)
