"""What one connection holds: its sessions, which end with it."""

from __future__ import annotations

import asyncio
from typing import Protocol

from openenv_grpc.engine import verdicts
from openenv_grpc.engine.session import OnLost, Session
from openenv_grpc.engine.threads import SharedThread
from openenv_grpc.sessions import Deliver, Operation, SessionPort

UNHELD_IDLE_TIMEOUT_S = 600.0
"""How long a session that no connection holds may idle, unless something else is said."""


class Opener(Protocol):
    """Opens sessions."""

    def open_session(
        self,
        environment: str,
        *,
        peer: str,
        shared_thread: SharedThread | None = None,
        idle_timeout_s: float | None = None,
        on_lost: OnLost | None = None,
    ) -> Session:
        """Makes a session. Raises what `Attachment.open` raises."""
        ...


class HeldSessions:
    """Sessions of one connection. Implements `Attachment`."""

    def __init__(self, opener: Opener, *, peer: str) -> None:
        self._opener = opener
        self._peer = peer
        self._thread = SharedThread()
        self._sessions: dict[SessionPort, Session] = {}

    def open(
        self,
        environment: str,
        *,
        operation: Operation | None = None,
        deliver: Deliver | None = None,
        on_lost: OnLost | None = None,
    ) -> SessionPort:
        """Opens a session; its constructor runs later, on the session's thread.

        Raises:
            EnvironmentNotFoundError, SessionCapacityError, DrainingError, OutOfOrderError.
        """
        if operation is not None:
            verdicts.check_first(operation)
        session = self._opener.open_session(
            environment, peer=self._peer, shared_thread=self._thread, on_lost=on_lost
        )
        self._sessions[session] = session
        session.closed.add_done_callback(lambda _: self._sessions.pop(session, None))
        if operation is not None and deliver is not None:
            session.open(operation, deliver)
        return session

    def release(self, session: SessionPort) -> None:
        """Lets a session go: it stays open without this attachment, which closes it no more."""
        released = self._sessions.pop(session, None)
        if released is not None:
            released.on_lost = None
            if released.idle_timeout_s is None:
                released.watch_idle(UNHELD_IDLE_TIMEOUT_S)

    async def leave(self) -> None:
        """Ends the sessions and waits for their close, which has a limit."""
        left = list(self._sessions.values())
        for session in left:
            session.on_lost = None
            session.end(verdicts.closed(), cause="its connection ended")
        await all_closed(left)


async def all_closed(sessions: list[Session]) -> None:
    """Waits until sessions have closed. Cancelling this cancels no close."""
    if sessions:
        await asyncio.wait({session.closed for session in sessions})
