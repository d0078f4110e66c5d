"""One `Connect` stream over any source and sink of messages."""

from openenv_grpc.stream.incoming import digest
from openenv_grpc.stream.outbox import Outbox, frame
from openenv_grpc.stream.serving import Duplex, StreamLimits, serve_stream

__all__ = ["Duplex", "Outbox", "StreamLimits", "digest", "frame", "serve_stream"]
