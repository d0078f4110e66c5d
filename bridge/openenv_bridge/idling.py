"""The end of sessions that no connection holds, once nobody has used them for long."""

from __future__ import annotations

from openenv_grpc.errors import SessionExpiredError, SessionNotFoundError
from openenv_grpc.sessions import SessionHost

MAX_IDLE_S = 3600.0
"""How long such a session may idle: its client may be gone for good."""


def expire(host: SessionHost, session_id: str, max_idle_s: float) -> None:
    """Ends a session that has idled for too long, if it has not ended yet."""
    error = SessionExpiredError(f"the session idled for more than {max_idle_s:g} seconds")
    try:
        host.end_session(session_id, error)
    except SessionNotFoundError:
        return  # it has ended, and was forgotten here
