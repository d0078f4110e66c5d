"""Memory that two processes of one machine have mapped, and the messages that lie in it."""

from openenv_grpc.shared_memory.ring import Block
from openenv_grpc.shared_memory.segment import (
    DEFAULT_BYTES,
    Offer,
    OfferedSegment,
    Segment,
    accept,
    offer,
)

__all__ = ["DEFAULT_BYTES", "Block", "Offer", "OfferedSegment", "Segment", "accept", "offer"]
