"""One environment of a vector client: its session, its episode, and what it was asked last."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

from openenv_grpc.client.outcomes import Observed, Seen, fields_of
from openenv_grpc.client.pending import Posted
from openenv_grpc.client.remote_session import Actions, RemoteSession
from openenv_grpc.errors import InvalidRequestError, OpenEnvError
from openenv_grpc.types import JsonValue
from openenv_grpc.wire.alike import Alike


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
    seen: Seen | None = None
    """What was observed last."""

    @property
    def started(self) -> bool:
        """Whether there was an episode."""
        return self.seen is not None

    def observation(self) -> Seen:
        """Returns what was seen last."""
        return self.seen or {}


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of an episode, where the next one has begun already."""

    seen: dict[str, Any]
    info: dict[str, Any]


class Owner(Protocol):
    """The vector client, as a turn sees it."""

    autoreset: Autoreset
    alike: Alike

    def arrived(self, turn: Turn) -> None:
        """Takes a turn that is done."""
        ...

    def reopen(self, turn: Turn, keywords: Mapping[str, JsonValue]) -> None:
        """Opens a lost session anew, and resets it."""
        ...


class Turn(Posted):
    """One step or reset of one environment, and what came of it."""

    __slots__ = (
        "_beginning", "_owner", "error", "final", "info", "reward", "seat", "seen", "terminated",
        "truncated",
    )  # fmt: skip

    def __init__(self, owner: Owner, seat: Seat) -> None:
        self.done = False
        self.alike = owner.alike
        self._owner = owner
        self._beginning = False  # of an episode
        self.seat = seat
        self.final: Ending | None = None
        """The end of the last episode, where the observation is the beginning of the next."""
        self.error: OpenEnvError | None = None
        """Why there is no answer; the observation is the last one then."""
        self.reward: float | None = None
        self.terminated = self.truncated = False
        # And once it is done:
        self.seen: Seen
        self.info: dict[str, Any]

    def step(self, actions: Actions, row: int) -> None:
        """Asks for a step, with one of some actions."""
        session = self.seat.session
        assert session is not None  # the client is connected
        try:
            session.post_step(actions, row, self)
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
        """See `Posted`."""
        if self.done:
            return
        seen, reward, terminated, truncated, info = observed
        if isinstance(seen, dict) and (metadata := seen.pop("metadata", None)):
            info["metadata"] = metadata
        seat = self.seat
        self.seen = seat.seen = seen
        self.info = info
        if self._beginning:
            seat.over = False
            if self.final is None:
                self.reward = 0.0
        else:
            self.reward, self.terminated, self.truncated = reward, terminated, truncated
            seat.over = terminated or truncated
            if seat.over and self._owner.autoreset is Autoreset.SAME_STEP:
                self._begin_anew()
                return
        self.done = True
        self._owner.arrived(self)

    def fail(self, error: OpenEnvError) -> None:
        """See `Posted`."""
        if self.done:
            return
        seat, lost, ended = self.seat, error.session_lost, self.final is not None
        seat.over = seat.over or lost or self._beginning
        self.seen, self.info = seat.observation(), {}
        self.error = error
        if not ended:
            self.reward, self.terminated, self.truncated = None, False, lost
        if lost and not self._beginning and self._owner.autoreset is Autoreset.SAME_STEP:
            self._begin_anew()
            return
        self.done = True
        self._owner.arrived(self)

    def _begin_anew(self) -> None:
        """Resets at once where an episode has ended."""
        self.final = Ending(fields_of(self.seen), self.info)
        self.reset({})

    def told(self) -> OpenEnvError:
        """Returns the error, with the environment that it is about."""
        assert self.error is not None
        self.error.metadata = {**self.error.metadata, "env": str(self.seat.index)}
        return self.error
