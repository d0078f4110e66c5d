"""The way from this process to one server: one stream at a time, made anew when it is lost."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from openenv_grpc.client.connection import Connection
from openenv_grpc.errors import (
    DeadlineExceededError,
    EnvironmentNotFoundError,
    InternalError,
    InvalidRequestError,
    OpenEnvError,
    PermissionDeniedError,
    UnauthenticatedError,
    UnavailableError,
)

logger = logging.getLogger(__name__)

FIRST_DELAY_S = 0.05
LAST_DELAY_S = 2.0
"""How long is waited before a stream is made anew: twice as long each time, up to the last."""

STEADY_S = 5.0
"""How long a stream has to stand for its loss to be a new one, not the last one's sequel."""

_SETTLE_S = 1.0
_PART_S = 2.0
_PASSING = (UnavailableError, InternalError, DeadlineExceededError)
"""What ends a stream, and may not end the next one: proxies and servers that go away."""
_FINAL = (
    UnauthenticatedError,
    PermissionDeniedError,
    EnvironmentNotFoundError,
    InvalidRequestError,
)
"""What a server says that will say the same the next time."""


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream that stands, or stood."""

    connection: Connection


class Traveller(Protocol):
    """A session, as its link sees it."""

    def board(self, stream: Stream) -> None:
        """Goes on over a new stream."""
        ...

    def part(self, stream: Stream) -> None:
        """Ends itself by a stream made for that, if it would outlive its own."""
        ...

    def strand(self, error: OpenEnvError, *, passing: bool) -> None:
        """Learns that the stream is gone; with `passing` there may be another soon."""
        ...

    def lose(self, error: OpenEnvError) -> None:
        """Learns that there will be no other stream."""
        ...


class Link:
    """Keeps a stream for its sessions, for as long as one of them waits for it."""

    def __init__(self, stream: Stream, dial: Callable[[], Awaitable[Stream]]) -> None:
        self._dial = dial
        self._sessions: dict[Traveller, bool] = {}  # with whether it had large outcomes
        self._mending: asyncio.Task[None] | None = None
        self._unsettled = False  # whether the server may not have read that a session is to end
        self._delay_s = FIRST_DELAY_S
        self._stream: Stream | None = None
        self.limits = stream.connection
        """The last stream that there was, for what its server takes."""
        self._leaving: list[Connection] = []  # streams that have ended, and clean up still
        self._lost: OpenEnvError = UnavailableError("the connection was closed")
        self._use(stream)

    @property
    def takes_sessions(self) -> bool:
        """Whether there is a stream just now, and its server is not about to stop."""
        return self._stream is not None and not self._stream.connection.draining

    @property
    def has_small(self) -> bool:
        """Whether there are sessions without large outcomes, which wait behind those of others."""
        return not all(self._sessions.values())

    def note_large(self, session: Traveller) -> bool:
        """Notes that a session had a large outcome; tells whether that was known."""
        known, self._sessions[session] = self._sessions[session], True
        return known

    @property
    def stream(self) -> Stream | None:
        """The stream that there is just now."""
        return self._stream

    def add(self, session: Traveller) -> None:
        """Takes a session along. Raises if there is no stream."""
        if self._stream is None:
            raise self._lost
        self._sessions[session] = False
        session.board(self._stream)

    def replace(self, session: Traveller, other: Traveller) -> None:
        """Takes another along in the place of one, on the stream that it has boarded."""
        del self._sessions[session]
        self._sessions[other] = True

    def remove(self, session: Traveller, *, settled: bool) -> None:
        """Forgets a session; `settled` tells whether the server knows that it has ended."""
        self._sessions.pop(session, None)
        self._unsettled = self._unsettled or not settled
        if self._mending is not None and not self._sessions:
            self._mending.cancel()

    async def close(self) -> None:
        """Ends the stream, or the attempts to make one."""
        mending, self._mending = self._mending, None
        if mending is not None:
            mending.cancel()
            await asyncio.wait((mending,))
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.connection.on_end = stream.connection.on_cancel = None
            if self._unsettled and stream.connection.lost is None:
                await stream.connection.settle(_SETTLE_S)
            await stream.connection.close()
        for connection in self._leaving:
            await connection.gone()

    def _use(self, stream: Stream) -> None:
        self._stream = stream
        self.limits = stream.connection
        stream.connection.on_end = self._ended
        stream.connection.on_cancel = self._part
        for session in list(self._sessions):
            session.board(stream)

    def _ended(self, error: OpenEnvError) -> None:
        stream, self._stream = self._stream, None
        self._lost = error
        if stream is not None:
            self._see_off(stream.connection)
        if stream is not None and stream.connection.went_well(STEADY_S):
            self._delay_s = FIRST_DELAY_S
        passing = isinstance(error, _PASSING) and not error.session_lost
        for session in list(self._sessions):
            session.strand(error, passing=passing)
        if self._sessions:
            self._mending = asyncio.get_running_loop().create_task(
                self._mend(), name="openenv-grpc reconnecting"
            )

    def _see_off(self, connection: Connection) -> None:
        self._leaving = [*(each for each in self._leaving if not each.is_gone), connection]

    async def _part(self) -> None:
        """Ends the sessions at the server, since the event loop ends and they do not.

        It takes a stream of its own: whatever ends the loop has cancelled the other.
        """
        with contextlib.suppress(OpenEnvError, TimeoutError):
            async with asyncio.timeout(_PART_S):
                stream = await self._dial()
                try:
                    for session in list(self._sessions):
                        session.part(stream)
                    await stream.connection.settle(_SETTLE_S)
                finally:
                    await stream.connection.close()

    async def _mend(self) -> None:
        """Makes a stream anew. Sessions that cannot wait any longer leave by themselves."""
        while True:
            await asyncio.sleep(self._delay_s)
            self._delay_s = min(2 * self._delay_s, LAST_DELAY_S)
            try:
                stream = await self._dial()
            except _FINAL as error:
                for session in list(self._sessions):
                    session.lose(error)
                return
            except OpenEnvError as error:
                logger.debug("reconnecting failed: %s", error)
                self._lost = error
            else:
                break
        self._mending = None
        if stream.connection.lost is not None:
            self._see_off(stream.connection)
            self._ended(stream.connection.lost)
        elif self._sessions:
            self._use(stream)
        else:
            await stream.connection.close()
