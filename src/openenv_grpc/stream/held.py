"""A session on a stream: under which number, and who takes its outcomes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from openenv_grpc.operations import Deliver, Reply
from openenv_grpc.sessions import SessionPort
from openenv_grpc.stream.outbox import prefix_of


class Held:
    """A session that a stream holds."""

    def __init__(self, number: int, deliver: Callable[[Held, Reply], None]) -> None:
        self.number = number
        self.prefix = prefix_of(number)
        self.port: SessionPort | None = None
        self.pending = 0
        """Operations without an outcome."""
        self.deliver: Deliver = partial(deliver, self)
        """Takes the replies of all its operations."""
