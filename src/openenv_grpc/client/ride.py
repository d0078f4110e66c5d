"""By which stream a session goes: boarded, lost, boarded anew, left for that of another link."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from openenv_grpc.client import operations
from openenv_grpc.client.connection import Receiver
from openenv_grpc.client.link import STEADY_S, Link, Stream
from openenv_grpc.client.unanswered import Unanswered
from openenv_grpc.errors import OpenEnvError, UnavailableError
from openenv_grpc.stream import prefix_of

ATTACH = 1
"""The control id of an `attach`."""


@dataclass(frozen=True, slots=True)
class Berth:
    """A place on a link."""

    link: Link
    release: Callable[[], Awaitable[None]]
    """Gives it up. The link ends with the last."""


class Rider(Receiver, Protocol):
    """A session, as its ride sees it."""

    def attach(self) -> bytes | None:
        """Returns the operation that takes the session up on another stream.

        `None` until its id is known: what was sent is sent again from the `open` on till then.
        """
        ...

    def close_at_once(self) -> None:
        """Sends the end of the session, without waiting for the answer."""
        ...

    def lose(self, error: OpenEnvError) -> None:
        """Learns that the session is gone."""
        ...


class Ride:
    """Carries one session's operations. Implements `link.Traveller`."""

    def __init__(
        self,
        rider: Rider,
        unanswered: Unanswered,
        berth: Berth,
        *,
        target: str,
        window_s: float | None,
    ) -> None:
        self.berth = berth
        """Where it is."""
        self.window_s = window_s
        """How long the session outlives its stream; `None` if it does not."""
        self.streams = 0
        """How many there have been."""
        self.restless = False
        """Whether `settle` has something to do."""
        self._rider = rider
        self._unanswered = unanswered
        self._target = target
        self._loop = asyncio.get_running_loop()
        self._stream: Stream | None = None
        self._number = 0
        self._prefix = b""  # the number, as operations carry it
        self._stranded_at: float | None = None  # when the trouble began that is not over yet
        self._attached_at: float | None = None
        self._giving_up: asyncio.TimerHandle | None = None
        self._when_quiet: Callable[[], None] | None = None
        self._waits = False  # whether operations do, for `go_on` or `go_back`

    def start(self) -> None:
        """Boards for the first time. Raises an `OpenEnvError` if there is no stream."""
        self.berth.link.add(self)

    def send(self, data: bytes) -> bool:
        """Sends an operation, if there is a stream; tells whether there was."""
        if self._stream is None:
            return False
        self._stream.connection.send(data, self._prefix)
        return True

    # What becomes of the stream (`link.Traveller`)

    def board(self, stream: Stream) -> None:
        """See `Traveller`. Takes the session up, and sends again what has no outcome."""
        if self._waits:
            return
        self._sit_down(stream, stream.connection.add(self._rider))
        attach = self._rider.attach()
        if attach is None:
            self.attached()  # by the `open` among what is sent again
        else:
            self.send(attach)
        self._send_unanswered()

    def _sit_down(self, stream: Stream, number: int) -> None:
        self._stream, self._number, self._prefix = stream, number, prefix_of(number)
        self.streams += 1

    def _send_unanswered(self) -> None:
        for pending in self._unanswered.by_id.values():
            self.send(pending.data)
            pending.stream = pending.stream or self.streams
            if pending.cancelled:
                self.send(operations.cancel(pending.request_id))

    def attached(self) -> None:
        """Learns that the session is on the stream."""
        self._attached_at = self._loop.time()
        self._keep_on()
        if not self._unanswered:
            self.settle()

    def refused(self, error: OpenEnvError) -> None:
        """Learns that it is not there; what was first sent with `attach` was not done."""
        self._unanswered.not_done_on(self.streams)
        self._rider.lose(error)

    def settle(self) -> None:
        """Notes that the session goes on, after a stream was lost, or is at rest."""
        self._stranded_at = None
        self._keep_on()
        self.restless = self._when_quiet is not None
        if self.restless and not self._unanswered and self._attached_at is not None:
            self._rest()

    def _rest(self) -> None:
        when_quiet, self._when_quiet = self._when_quiet, None
        self.restless = False
        if when_quiet is not None:
            when_quiet()

    def _keep_on(self) -> None:
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None

    def part(self, stream: Stream) -> None:
        """See `Traveller`."""
        if self.window_s is not None:
            self._waits = False
            self.board(stream)
            self._rider.close_at_once()

    def strand(self, error: OpenEnvError, *, passing: bool) -> None:
        """See `Traveller`. Waits for the next stream, for as long as the window lasts."""
        self._stream = None
        if not passing or self.window_s is None:
            self._rider.lose(error)
            return
        now = self._loop.time()
        steady = self._attached_at is not None and now - self._attached_at >= STEADY_S
        if self._stranded_at is None or steady:
            self._stranded_at = now
        self._attached_at = None
        self.restless = True
        self._keep_on()
        self._giving_up = self._loop.call_at(
            self._stranded_at + self.window_s, self._window_passed, self.window_s, error
        )

    def _window_passed(self, window_s: float, error: OpenEnvError) -> None:
        self._rider.lose(
            UnavailableError(
                f"{self._target} could not be reached again within the session's window of "
                f"{window_s:g} s: {error.message}"
            )
        )

    def lose(self, error: OpenEnvError) -> None:
        """See `Traveller`."""
        self._rider.lose(error)

    def leave(self, *, settled: bool) -> None:
        """Leaves stream and link; `settled` tells whether the server knows that it has ended."""
        self._keep_on()
        self._when_quiet = None
        if self._stream is not None:
            self._stream.connection.remove(self._number)
            self._stream = None
        self.berth.link.remove(self, settled=settled)

    # How it comes to another link (`moving.Moving`)

    def when_quiet(self, act: Callable[[], None]) -> None:
        """Calls `act` once, as soon as the session is on a stream and has nothing under way."""
        self._when_quiet, self.restless = act, True
        if self._stranded_at is None:
            self.settle()

    def wait(self) -> tuple[Stream, int]:
        """Has operations wait; returns the stream, and the number there. For `when_quiet`."""
        stream, self._stream = self._stream, None
        assert stream is not None  # since there it is quiet
        self._waits = True
        return stream, self._number

    def go_on(self, berth: Berth, stream: Stream, number: int) -> None:
        """Goes on where the session is attached now."""
        self._waits = False
        self.berth.link.remove(self, settled=True)
        self.berth = berth
        self._sit_down(stream, number)
        self._stranded_at = None
        self.attached()
        self._send_unanswered()

    def go_back(self, to: Stream, *, attach: bool) -> None:
        """Goes on where the session was; with `attach` it may have been taken away from there."""
        self._waits = False
        stream = self.berth.link.stream
        if stream is not to:
            if stream is not None:
                self.board(stream)
            return
        self._stream = to
        if attach:
            self.attach_again()
        else:
            self._send_unanswered()

    def attach_again(self) -> None:
        """Takes the session up anew, on the stream where it is thought to be."""
        stream = self._stream
        if stream is not None:
            stream.connection.remove(self._number)
            self.board(stream)
