"""Who follows what is done in one session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from openenv_grpc.operations import Kind, Operation
from openenv_grpc.sessions import Follower
from openenv_grpc.tools import Change
from openenv_grpc.tools.changes import TellChange

_ACTS = frozenset({Kind.RESET, Kind.STEP, Kind.CALL_TOOL})


class Followers:
    """Those who follow a session, on the event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._followers: list[Follower] = []

    def add(self, follower: Follower) -> Callable[[], None]:
        """Adds one; returns what removes him."""
        self._followers.append(follower)
        return partial(self._remove, follower)

    def _remove(self, follower: Follower) -> None:
        with suppress(ValueError):  # the session has ended
            self._followers.remove(follower)

    def teller(self, operation: Operation) -> TellChange | None:
        """Returns what tells of changes while an operation is done; `None` if nobody follows."""
        return partial(self._tell, operation) if self._followers else None

    def _tell(self, operation: Operation, change: Change) -> None:
        with suppress(RuntimeError):  # the loop is closed, nobody follows any more
            self._loop.call_soon_threadsafe(self._changed, operation, change)

    def _changed(self, operation: Operation, change: Change) -> None:
        for follower in tuple(self._followers):
            follower.changed(change, operation)

    def done(self, operation: Operation) -> None:
        """Tells of an operation that has acted on the environment."""
        if operation.kind in _ACTS:
            for follower in tuple(self._followers):
                follower.acted(operation)

    def end(self) -> None:
        """Tells of the session's end."""
        followers, self._followers = self._followers, []
        for follower in followers:
            follower.ended()
