"""Outcomes of a stream, taken for one who waits for many at once."""

from __future__ import annotations

from collections.abc import Callable

from openenv_grpc.client import operations
from openenv_grpc.client.remote_session import Place
from openenv_grpc.errors import OpenEnvError
from openenv_grpc.v1 import session_pb2
from openenv_grpc.wire.peeling import Peeled


class OutcomePlace:
    """A place among many, which takes an outcome. Implements `unanswered.Answer`."""

    __slots__ = ("_failure", "_place", "peeled")

    def __init__(
        self, place: Place, failure: Callable[[session_pb2.Outcome], OpenEnvError]
    ) -> None:
        self._place = place
        self._failure = failure
        self.peeled: Peeled | None = None
        """The bytes of a large array that the outcome comes without."""

    def done(self) -> bool:
        """See `Answer`."""
        return self._place.done

    def set_result(self, outcome: session_pb2.Outcome, /) -> None:
        """See `Answer`."""
        try:
            if outcome.HasField("error"):
                raise self._failure(outcome)
            step = outcome.HasField("step")
            payload = operations.observed(
                outcome.step if step else outcome.reset_episode, self.peeled
            )
        except OpenEnvError as error:
            self._place.fail(error)
        else:
            self._place.fill(payload)

    def set_exception(self, error: OpenEnvError, /) -> None:
        """See `Answer`."""
        self._place.fail(error)
