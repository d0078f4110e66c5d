"""Operations that have no outcome yet: calls that are waited for, and what is posted."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Protocol

from openenv_grpc.client import operations
from openenv_grpc.client.outcomes import Observed
from openenv_grpc.errors import OpenEnvError
from openenv_grpc.v1 import session_pb2
from openenv_grpc.wire.alike import Alike
from openenv_grpc.wire.peeling import Peeled


class Failing(Protocol):
    """The session, as its operations see it."""

    def failure(self, outcome: session_pb2.Outcome) -> OpenEnvError:
        """Reads an outcome that is an error, which may end the session."""
        ...


class Pending(ABC):
    """An operation without an outcome.

    It is kept where the caller has given up, until the late outcome comes, which is then nobody
    else's.
    """

    __slots__ = ("cancelled", "data", "peeled", "request_id", "stream", "what")

    # All of it is set when it is sent.
    what: str
    """Which call it is."""
    request_id: int
    data: bytes
    """As it is sent, without the session's number, which differs from stream to stream."""
    stream: int
    """Which of the session's streams it was first sent on, counting from 1; 0 for none yet."""
    cancelled: bool
    peeled: Peeled | None
    """The bytes of a large array that its outcome comes without."""

    @abstractmethod
    def is_done(self) -> bool:
        """Tells whether its outcome has been taken, or is not wanted any more."""

    @abstractmethod
    def take(self, outcome: session_pb2.Outcome, kind: str | None, session: Failing) -> None:
        """Takes the outcome, if it is wanted: `kind` names which it is, it may be an error."""

    @abstractmethod
    def fail(self, error: OpenEnvError) -> None:
        """Learns that there will be none, or none in time."""


class Call(Pending):
    """One that a coroutine waits for."""

    __slots__ = ("answer", "limit_s", "until")

    def __init__(self, answer: asyncio.Future[session_pb2.Outcome]) -> None:
        self.answer = answer
        self.limit_s = self.until = 0.0  # see `Patience`

    def is_done(self) -> bool:
        """See `Pending`."""
        return self.answer.done()

    def take(self, outcome: session_pb2.Outcome, kind: str | None, session: Failing) -> None:
        """See `Pending`."""
        if not self.answer.done():
            self.answer.set_result(outcome)

    def fail(self, error: OpenEnvError) -> None:
        """See `Pending`."""
        self.answer.set_exception(error)


class Posted(Pending):
    """A step or reset of one who waits for many at once."""

    __slots__ = ("alike", "done")

    alike: Alike
    """Recognizes observations that are like others of whoever waits."""
    done: bool
    """Whether it has what it led to, or it is not wanted any more."""

    def is_done(self) -> bool:
        """See `Pending`."""
        return self.done

    @abstractmethod
    def fill(self, observed: Observed) -> None:
        """Takes what was observed."""

    def take(self, outcome: session_pb2.Outcome, kind: str | None, session: Failing) -> None:
        """See `Pending`."""
        if self.done:
            return
        try:
            if kind == "step":
                observed = operations.stepped(outcome.step, self.peeled, self.alike)
            elif kind == "error":
                raise session.failure(outcome)
            else:
                observed = operations.begun(outcome.reset_episode, self.peeled)
        except OpenEnvError as error:
            self.fail(error)
        else:
            self.fill(observed)
