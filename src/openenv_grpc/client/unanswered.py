"""What a session was asked and has no outcome yet, by number and in order."""

from __future__ import annotations

from collections.abc import ItemsView
from dataclasses import dataclass
from typing import Protocol

from openenv_grpc.client.outcome_place import OutcomePlace
from openenv_grpc.client.remote_session import in_flight
from openenv_grpc.errors import OpenEnvError, TooManyOperationsError
from openenv_grpc.v1 import session_pb2
from openenv_grpc.wire.peeling import Peeled


class Answer(Protocol):
    """Takes what an operation led to: a future, or a place among many that are waited for."""

    def done(self) -> bool:
        """Tells whether it has been taken, or is not wanted any more."""
        ...

    def set_result(self, outcome: session_pb2.Outcome, /) -> None:
        """Takes the outcome, which may be an error."""
        ...

    def set_exception(self, error: OpenEnvError, /) -> None:
        """Learns that there will be none, since the session is lost."""
        ...


@dataclass(slots=True, eq=False)
class Pending:
    """An operation without an outcome."""

    data: bytes
    """As it is sent, without the session's number, which differs from stream to stream."""
    what: str
    """Which call it is."""
    answer: Answer
    """Done already where the caller has given up. The place is kept until the late outcome comes,
    which is then nobody else's."""
    stream: int = 0
    """Which of the session's streams it was first sent on, counting from 1; 0 for none yet."""
    cancelled: bool = False
    place: OutcomePlace | None = None
    """The answer, where it is a place among many."""
    peeled: Peeled | None = None
    """The bytes of a large array that its outcome comes without, unless they are in the place."""


class Unanswered:
    """The operations of one session that have no outcome."""

    def __init__(self) -> None:
        self._by_id: dict[int, Pending] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def check_room(self, limit: int) -> None:
        """Refuses what the server would refuse, before it uses up a number; 0 is no limit."""
        if 0 < limit <= len(self._by_id):
            raise TooManyOperationsError(
                f"{limit} operations of this session are in flight, those included that were given "
                "up; wait for an answer first"
            )

    def items(self) -> ItemsView[int, Pending]:
        """Lists them by their numbers, in order."""
        return self._by_id.items()

    def lowest(self, next_id: int) -> int:
        """Returns the lowest number without an outcome; `next_id` if there is none."""
        return next(iter(self._by_id), next_id)

    def add(self, request_id: int, pending: Pending) -> None:
        """Adds the next one."""
        self._by_id[request_id] = pending

    def get(self, request_id: int) -> Pending | None:
        """Returns the one of that number, if it has no outcome."""
        return self._by_id.get(request_id)

    def what(self, request_id: int) -> str:
        """Returns which call has a number; nothing if it is not known, or has its outcome."""
        pending = self._by_id.get(request_id)
        return "" if pending is None else pending.what

    def take(self, request_id: int) -> Pending | None:
        """Takes out what has its outcome now."""
        return self._by_id.pop(request_id, None)

    def not_done_on(self, stream: int) -> None:
        """Notes that nothing was done of what that stream was the first to carry."""
        for pending in self._by_id.values():
            if pending.stream == stream:
                pending.stream = 0

    def fail(self, error: OpenEnvError) -> None:
        """Tells all who wait that the session is lost, and whether their call may have counted."""
        waiting = [pending for pending in self._by_id.values() if not pending.answer.done()]
        self._by_id.clear()
        for pending in waiting:
            pending.answer.set_exception(in_flight(error, arrived=pending.stream > 0))
