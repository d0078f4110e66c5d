"""One operation on its way through a session."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from openenv_grpc.engine.clock import Timer
from openenv_grpc.engine.witnessing import Witness
from openenv_grpc.errors import OpenEnvError
from openenv_grpc.operations import Deliver, Operation
from openenv_grpc.sessions import UnderWay
from openenv_grpc.tracing import ServerSpan


@dataclass(eq=False)  # what is set seldom is the class's until then
class Pending:
    """An operation that has come in, until it is over."""

    operation: Operation | None
    """`None` is an opening that nobody asked for: the first operation needs it."""
    deliver: Deliver | None
    arrived_at: float = 0.0
    """By the clock."""
    refused: OpenEnvError | None = field(default=None, init=False)
    """Why it will not be done, told when its turn comes."""
    witness: Witness | None = field(default=None, init=False)
    """Who tells of it, where somebody watches."""
    answered: bool = field(default=False, init=False)
    """Whether the reply is out; the call may still run on."""
    task: asyncio.Task[Any] | None = field(default=None, init=False)
    """What runs it, where it is awaited."""
    deadline: Timer | None = field(default=None, init=False)
    span: ServerSpan | None = field(default=None, init=False)
    """Where operations are traced."""
    respite: Timer | None = field(default=None, init=False)
    """After which its session is given up, if it still runs then."""

    @property
    def is_numbered(self) -> bool:
        """Whether it stands in its session's sequence."""
        return self.operation is not None and bool(self.operation.request_id)

    def under_way(self, now: float) -> UnderWay:
        """Tells how long it has taken."""
        number = 0 if self.operation is None else self.operation.request_id or 0
        return UnderWay(number, now - self.arrived_at)

    def stop_deadline(self) -> None:
        """Forgets the deadline."""
        if self.deadline is not None:
            self.deadline.cancel()
            self.deadline = None

    def stop_timers(self) -> None:
        """Forgets the deadline and the respite: the call has ended."""
        self.stop_deadline()
        if self.respite is not None:
            self.respite.cancel()
            self.respite = None
