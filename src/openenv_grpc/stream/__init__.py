"""One `Connect` stream over any source and sink of messages."""

from openenv_grpc.stream.incoming import digest
from openenv_grpc.stream.limits import (
    MAX_SHARED_BYTES,
    MAX_UNSENT_BYTES,
    PROGRESS_INTERVAL_S,
    Duplex,
    StreamLimits,
)
from openenv_grpc.stream.outbox import COALESCED_BYTES, Outbox, prefix_of
from openenv_grpc.stream.serving import serve_stream
from openenv_grpc.stream.sharing import SHARED_BYTES

__all__ = [
    "COALESCED_BYTES",
    "MAX_SHARED_BYTES",
    "MAX_UNSENT_BYTES",
    "PROGRESS_INTERVAL_S",
    "SHARED_BYTES",
    "Duplex",
    "Outbox",
    "StreamLimits",
    "digest",
    "prefix_of",
    "serve_stream",
]
