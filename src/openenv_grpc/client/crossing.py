"""A session's `attach` on another link, while it keeps its place on its own."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable

from openenv_grpc.client.connection import Receiver
from openenv_grpc.client.link import Stream
from openenv_grpc.client.ride import ATTACH, Berth
from openenv_grpc.errors import OpenEnvError, SessionTakenOverError
from openenv_grpc.stream import prefix_of
from openenv_grpc.v1 import session_pb2
from openenv_grpc.wire import status
from openenv_grpc.wire.peeling import Peeled

LIMIT_S = 5.0
"""How long the server may take to answer."""


class Landing(enum.Enum):
    """What became of a crossing."""

    ATTACHED = enum.auto()
    """The session is on the other link's stream."""
    REFUSED = enum.auto()
    """It is where it was."""
    DOUBTFUL = enum.auto()
    """It is here, or there, or will be there: no answer came."""


class Crossing:
    """Stands on the other link in its session's place. Implements `Traveller` and `Receiver`.

    Nothing is asked of the session meanwhile, so nothing can be lost, or done twice.
    """

    def __init__(self, other: Berth, attach: bytes, land: Callable[[Landing], None]) -> None:
        """`land` is called once, with what became of it."""
        self.other = other
        self.error: OpenEnvError | None = None
        """Why it was not attached."""
        self._attach = attach
        self._land = land
        self._stream: Stream | None = None
        self._number = 0
        self._limit: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Sends the `attach`. Raises an `OpenEnvError` if there is no stream."""
        self.other.link.add(self)
        loop = asyncio.get_running_loop()
        self._limit = loop.call_later(LIMIT_S, self._conclude, Landing.DOUBTFUL)

    def hand_over(self, rider: Receiver) -> tuple[Stream, int]:
        """Gives its place to the session that is attached; returns the stream and the number."""
        stream = self._stream
        assert stream is not None  # where it was attached
        stream.connection.give(self._number, rider)
        self._stream = None
        return stream, self._number

    def give_up(self) -> None:
        """Leaves the other link. It lands no more."""
        if self._limit is not None:
            self._limit.cancel()
        if self._stream is not None:
            self._stream.connection.remove(self._number)
            self._stream = None
        self.other.link.remove(self, settled=True)

    def _conclude(self, landing: Landing) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None
            self._land(landing)

    def board(self, stream: Stream) -> None:
        """See `Traveller`."""
        self._stream = stream
        self._number = stream.connection.add(self)
        stream.connection.send(self._attach, prefix_of(self._number))

    def part(self, stream: Stream) -> None:
        """See `Traveller`. The session itself parts from where it was."""

    def strand(self, error: OpenEnvError, *, passing: bool) -> None:
        """See `Traveller`."""
        self.lose(error)

    def lose(self, error: OpenEnvError) -> None:
        """See `Traveller`."""
        self.error = error
        self._conclude(Landing.DOUBTFUL)

    def receive(self, outcome: session_pb2.Outcome, kind: str | None) -> None:
        """See `Receiver`."""
        if outcome.control_id != ATTACH:
            return
        if kind == "error":
            self.error = status.decode_error(outcome.error)
            self._conclude(Landing.REFUSED)
        else:
            self._conclude(Landing.ATTACHED)

    def peel(self, outcome: session_pb2.Outcome, peeled: Peeled) -> None:
        """See `Receiver`."""

    def outgrow(self) -> None:
        """See `Receiver`."""


class Farewell:
    """Takes what still comes where a session was, to the last of it: that it was taken over."""

    def __init__(self, session: Receiver) -> None:
        self._session = session
        self.heard = asyncio.Event()
        """Set once nothing more will come."""

    def receive(self, outcome: session_pb2.Outcome, kind: str | None) -> None:
        """See `Receiver`."""
        if is_taken_over(outcome):
            self.heard.set()
        else:
            self._session.receive(outcome, kind)

    def peel(self, outcome: session_pb2.Outcome, peeled: Peeled) -> None:
        """See `Receiver`."""
        self._session.peel(outcome, peeled)

    def outgrow(self) -> None:
        """See `Receiver`."""


def is_taken_over(outcome: session_pb2.Outcome) -> bool:
    """Tells whether it is the event that a session was attached to elsewhere."""
    if not outcome.event.HasField("session_lost"):
        return False
    return isinstance(status.decode_error(outcome.event.session_lost), SessionTakenOverError)
