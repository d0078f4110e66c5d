"""What a session was asked and has no outcome yet, by number and in order."""

from __future__ import annotations

from openenv_grpc.client.pending import Call, Pending
from openenv_grpc.client.remote_session import in_flight
from openenv_grpc.errors import OpenEnvError, TooManyOperationsError


class Unanswered:
    """The operations of one session that have no outcome."""

    def __init__(self) -> None:
        self.by_id: dict[int, Pending] = {}
        """They, in the order of their numbers."""

    def __len__(self) -> int:
        return len(self.by_id)

    def no_room(self) -> TooManyOperationsError:
        """Refuses what the server would refuse, before it uses up a number."""
        return TooManyOperationsError(
            f"{len(self.by_id)} operations of this session are in flight, those included that were "
            "given up; wait for an answer first"
        )

    def calls(self) -> list[Call]:
        """Lists the calls whose answer is still waited for."""
        return [
            each for each in self.by_id.values() if isinstance(each, Call) and not each.is_done()
        ]

    def what(self, request_id: int) -> str:
        """Returns which call has a number; nothing if it is not known, or has its outcome."""
        pending = self.by_id.get(request_id)
        return "" if pending is None else pending.what

    def not_done_on(self, stream: int) -> None:
        """Notes that nothing was done of what that stream was the first to carry."""
        for pending in self.by_id.values():
            if pending.stream == stream:
                pending.stream = 0

    def fail(self, error: OpenEnvError) -> None:
        """Tells all who wait that the session is lost, and whether their call may have counted."""
        waiting = [pending for pending in self.by_id.values() if not pending.is_done()]
        self.by_id.clear()
        for pending in waiting:
            pending.fail(in_flight(error, arrived=pending.stream > 0))
