"""Large operations and outcomes, handed over in memory that both ends of a stream have mapped."""

from __future__ import annotations

import logging

from google.protobuf.message import DecodeError

from openenv_grpc import shared_memory
from openenv_grpc.errors import NotSupportedError, ProtocolViolationError
from openenv_grpc.shared_memory import Block, Segment
from openenv_grpc.v1 import session_pb2

logger = logging.getLogger(__name__)

SHARED_BYTES = 64 * 2**10
"""From which size on memory is used. Below, the connection is as quick."""


class Sharing:
    """Puts what one end sends into the memory, and takes out what the other did.

    For one stream, which owns the memory.
    """

    def __init__(self, segment: Segment, kind: type[session_pb2.Operation | session_pb2.Outcome]):
        self._segment = segment
        self._kind = kind  # what is sent from here

    def put(self, content: bytes) -> bytes:
        """Puts something there, and returns what to send in its place.

        Where there is no room it goes over the connection, as it is.
        """
        block = self._segment.put(content)
        if block is None:
            return content
        message = self._kind()
        message.shared_block.offset = block.offset
        message.shared_block.size_bytes = block.size_bytes
        message.shared_block.generation = block.generation
        return message.SerializeToString()

    def take(self, block: session_pb2.SharedBlock, *, limit_bytes: int) -> bytes:
        """Takes an operation or outcome out of the memory.

        Raises:
            ProtocolViolationError: there is none, or none any more, or it is above the limit.
        """
        if block.size_bytes > limit_bytes:
            raise ProtocolViolationError(
                f"{block.size_bytes} bytes lie in the shared memory, and {limit_bytes} are taken"
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
    return Sharing(segment, session_pb2.Outcome)


def taken(sharing: Sharing | None, block: session_pb2.SharedBlock, *, limit_bytes: int) -> bytes:
    """Takes an operation or outcome out of the memory that is shared, if it is.

    Raises:
        ProtocolViolationError: no memory is shared, or no such block is in it.
    """
    if sharing is None:
        raise ProtocolViolationError("a message names shared memory, and none is shared here")
    return sharing.take(block, limit_bytes=limit_bytes)


def taken_operation(
    sharing: Sharing | None, operation: session_pb2.Operation, *, limit_bytes: int
) -> session_pb2.Operation:
    """Takes the operation out of the memory that another stands for.

    Raises:
        ProtocolViolationError: there is none, or none that can be in memory.
    """
    data = taken(sharing, operation.shared_block, limit_bytes=limit_bytes)
    try:
        found = session_pb2.Operation.FromString(data)
    except DecodeError as error:
        raise ProtocolViolationError("what lies in the shared memory is no operation") from error
    if found.HasField("shared_block"):
        raise ProtocolViolationError("what lies in the shared memory lies there, not elsewhere")
    found.session = operation.session
    return found
