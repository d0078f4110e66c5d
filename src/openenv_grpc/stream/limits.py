"""What a stream runs over, and how much it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from openenv_grpc.errors import Effect, OutcomeTooLargeError
from openenv_grpc.operations import Reply
from openenv_grpc.wire.operations import failed_outcome

DEFAULT_RECEIVE_BYTES = 4 * 2**20
"""What a client takes that does not say how much."""

MAX_UNSENT_BYTES = 32 * 2**20
MAX_SHARED_BYTES = 256 * 2**20
PROGRESS_INTERVAL_S = 5.0

MIN_RECEIVE_BYTES = 1024
"""What a client has to take, so that it can be told of errors."""


class Duplex(Protocol):
    """Where messages come from and go to."""

    async def read(self) -> bytes | None:
        """Returns the next message; `None` at the end."""
        ...

    async def write(self, data: bytes) -> None:
        """Sends a message. Raises `ConnectionError` if nobody is there any more."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLimits:
    """How much a stream takes."""

    max_receive_bytes: int = 100 * 2**20
    max_operations_per_message: int = 100_000
    """A message with more ends the stream: empty ones take two bytes each, and much more memory."""
    max_unsent_bytes: int = MAX_UNSENT_BYTES
    """Unsent outcomes past which no further operation is read."""
    max_shared_bytes: int = MAX_SHARED_BYTES
    """The most memory that is shared with a client of the same machine; 0 is none."""
    max_operations_per_session: int = 16
    """Told to the client; the session enforces it."""
    progress_interval_s: float = PROGRESS_INTERVAL_S
    """Between two `progress` of an operation, for clients that ask for it."""


def too_large(reply: Reply, limit_bytes: int) -> bytes:
    """Writes the outcome that goes out for one that its client does not take."""
    request_id = reply.operation.request_id or 0
    if reply.error is not None:
        return failed_outcome(reply.error, request_id=request_id, brief=True)
    error = OutcomeTooLargeError(
        f"the outcome has {len(reply.content)} bytes, and the client takes {limit_bytes}; have the "
        "client say a higher max_receive_size_bytes",
        effect=Effect.DONE,
        metadata={"size_bytes": str(len(reply.content))},
    )
    return failed_outcome(error, request_id=request_id)
