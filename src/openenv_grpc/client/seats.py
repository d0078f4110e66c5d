"""One environment of a vector client: its session, its episode, and what it was asked last."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

from openenv_grpc.client.remote_session import Observed, RemoteSession
from openenv_grpc.errors import InvalidRequestError, OpenEnvError
from openenv_grpc.types import JsonValue


class Autoreset(enum.StrEnum):
    """What happens where an episode ends. The names are Gymnasium's."""

    NEXT_STEP = "next_step"
    SAME_STEP = "same_step"
    DISABLED = "disabled"

    @classmethod
    def read(cls, text: str) -> Self:
        """Reads a mode; Gymnasium's own values, as `NextStep`, are taken too."""
        for mode in cls:
            if mode.replace("_", "") == str(text).lower().replace("_", ""):
                return mode
        raise InvalidRequestError(
            f"autoreset is one of {', '.join(mode.value for mode in cls)}, not {text!r}"
        )


@dataclass(slots=True, eq=False)
class Seat:
    """One of the environments."""

    index: int
    session: RemoteSession | None = None
    over: bool = False
    """The episode has ended, so that a reset comes next."""
    seen: dict[str, Any] | None = None
    """What was observed last."""

    @property
    def started(self) -> bool:
        """Whether there was an episode."""
        return self.seen is not None

    def observation(self) -> dict[str, Any]:
        """Returns the fields that were seen last."""
        return self.seen or {}


@dataclass(slots=True, eq=False, kw_only=True)
class Arrival:
    """What one environment has answered."""

    seat: Seat
    seen: dict[str, Any]
    reward: float | None = None
    terminated: bool = False
    truncated: bool = False
    info: dict[str, Any] = field(default_factory=dict)
    final: Arrival | None = None
    """The end of the last episode, where this is the beginning of the next."""
    error: OpenEnvError | None = None
    """Why there is no answer; the observation is the last one then."""

    def observation(self) -> dict[str, Any]:
        """Returns the fields of the observation."""
        return self.seen

    def told(self) -> OpenEnvError:
        """Returns the error, with the environment that it is about."""
        assert self.error is not None
        self.error.metadata = {**self.error.metadata, "env": str(self.seat.index)}
        return self.error


class Owner(Protocol):
    """The vector client, as a turn sees it."""

    autoreset: Autoreset

    def arrived(self, turn: Turn, arrival: Arrival) -> None:
        """Takes an answer."""
        ...

    def reopen(self, turn: Turn, keywords: Mapping[str, JsonValue]) -> None:
        """Opens a lost session anew, and resets it."""
        ...


class Turn:
    """One step or reset of one environment (`remote_session.Place`)."""

    __slots__ = ("_beginning", "_final", "_owner", "done", "seat")

    def __init__(self, owner: Owner, seat: Seat) -> None:
        self._owner = owner
        self._final: Arrival | None = None
        self._beginning = False  # of an episode
        self.seat = seat
        self.done = False

    def step(self, action: Mapping[str, JsonValue]) -> None:
        """Asks for a step."""
        session = self.seat.session
        assert session is not None  # the client is connected
        try:
            session.post_step(action, self)
        except OpenEnvError as error:
            self.fail(error)

    def reset(self, keywords: Mapping[str, JsonValue]) -> None:
        """Asks for a reset, in a session anew if there is none any more."""
        self._beginning = True
        session = self.seat.session
        if session is None or session.lost is not None:
            self._owner.reopen(self, keywords)
            return
        try:
            session.post_reset(keywords, self)
        except OpenEnvError as error:
            self.fail(error)

    def fill(self, observed: Observed) -> None:
        """See `Place`."""
        if self.done:
            return
        arrival = self._read(observed)
        seat = self.seat
        seat.seen = arrival.seen
        seat.over = arrival.terminated or arrival.truncated
        if self._beginning:
            seat.over = arrival.terminated = arrival.truncated = False
            arrival.reward = 0.0
        elif seat.over and self._owner.autoreset is Autoreset.SAME_STEP:
            self._final = arrival
            self.reset({})
            return
        self._finish(arrival)

    def fail(self, error: OpenEnvError) -> None:
        """See `Place`."""
        if self.done:
            return
        seat = self.seat
        lost = error.session_lost
        seat.over = seat.over or lost or self._beginning
        arrival = Arrival(seat=seat, seen=seat.observation(), truncated=lost, error=error)
        if lost and not self._beginning and self._owner.autoreset is Autoreset.SAME_STEP:
            self._final = arrival
            self.reset({})
        else:
            self._finish(arrival)

    def _finish(self, arrival: Arrival) -> None:
        self.done = True
        final = self._final
        if final is not None:
            arrival.final = final
            arrival.reward = final.reward
            arrival.terminated, arrival.truncated = final.terminated, final.truncated
            arrival.error = arrival.error or final.error
        self._owner.arrived(self, arrival)

    def _read(self, observed: Observed) -> Arrival:
        seen, reward, terminated, truncated, info = observed
        metadata = seen.pop("metadata", None)
        if metadata:
            info["metadata"] = metadata
        return Arrival(
            seat=self.seat,
            seen=seen,
            reward=reward,
            terminated=terminated,
            truncated=truncated,
            info=info,
        )
