"""Sessions that nobody asks anything of: found by one timer for all."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from openenv_grpc.engine.alarm import NEVER, Alarm
from openenv_grpc.engine.clock import Clock
from openenv_grpc.engine.session import Session
from openenv_grpc.errors import SessionExpiredError


class IdleWatch:
    """Ends sessions that idle longer than they may."""

    def __init__(self, clock: Clock, sessions: Callable[[], Iterable[Session]]) -> None:
        self._clock = clock
        self._sessions = sessions
        self._alarm = Alarm(clock, self._look)

    def watch(self, session: Session) -> None:
        """Watches a session from now on, if it has a limit."""
        if session.idle_timeout_s is not None:
            self._alarm.set(self._clock.time() + session.idle_timeout_s)

    def stop(self) -> None:
        """Watches no more."""
        self._alarm.stop()

    def _look(self) -> None:
        now = self._clock.time()
        next_due = NEVER
        for session in list(self._sessions()):
            limit_s = session.idle_timeout_s
            if limit_s is None or session.is_over or session.is_detached:
                continue
            idle_since = session.idle_since
            due = (now if idle_since is None else idle_since) + limit_s
            if due > now:
                next_due = min(next_due, due)
            else:
                session.end(
                    SessionExpiredError(f"the session idled for {limit_s:g} seconds; open another"),
                    cause="idle",
                )
        self._alarm.set(next_due)
