"""What a server that drains waits for."""

from __future__ import annotations

from collections.abc import Iterable

from openenv_grpc.engine.session import Session

INTERVAL_S = 0.1
"""How often it is looked whether what is under way has ended."""

SETTLE_S = 1.0
"""How long nothing may have been asked of a session whose episode is over, for it to be drained:
its client may still read the state, or ask for the verdict."""


def is_busy(sessions: Iterable[Session], now: float) -> bool:
    """Tells whether any session is amid an episode, or was asked for something just now."""
    return any(
        session.is_under_way
        or (session.idle_since is not None and now - session.idle_since < SETTLE_S)
        for session in sessions
    )
