"""What one connection holds: its sessions, which end with it unless they have a window."""

from __future__ import annotations

import asyncio
from typing import Protocol

from openenv_grpc.engine import verdicts
from openenv_grpc.engine.queue import Holder
from openenv_grpc.engine.registry import EngineSettings
from openenv_grpc.engine.resuming import Hold, Windows
from openenv_grpc.engine.session import OnLost, Session
from openenv_grpc.engine.threads import SharedThread
from openenv_grpc.errors import InvalidRequestError
from openenv_grpc.operations import Deliver, Operation
from openenv_grpc.sessions import Resume, SessionPort, Wait, Watch

UNHELD_IDLE_TIMEOUT_S = 600.0
"""How long a session that no connection holds may idle, unless something else is said."""


class Opener(Protocol):
    """Opens sessions."""

    @property
    def settings(self) -> EngineSettings:
        """How sessions are run."""
        ...

    @property
    def windows(self) -> Windows:
        """The sessions that can be taken up again."""
        ...

    def open_session(
        self,
        environment: str,
        *,
        peer: str,
        shared_thread: SharedThread | None = None,
        idle_timeout_s: float | None = None,
        on_lost: OnLost | None = None,
        wait: Wait | None = None,
        holder: Holder | None = None,
        snapshot_id: str = "",
    ) -> Session:
        """Makes a session. Raises what `Attachment.open` raises."""
        ...

    def keep_waiting(self, session: Session, wait: Wait, holder: Holder) -> None:
        """Has a session that waits keep its place although another connection asks for it now."""
        ...


class HeldSessions:
    """Sessions of one connection. Implements `Attachment`."""

    def __init__(self, opener: Opener, *, peer: str) -> None:
        self._opener = opener
        self._windows = opener.windows
        self._peer = peer
        self._thread = SharedThread()
        self._sessions: dict[SessionPort, Session] = {}
        self._holds: dict[SessionPort, Hold] = {}  # on those that have a window

    def open(
        self,
        environment: str,
        *,
        operation: Operation | None = None,
        deliver: Deliver | None = None,
        on_lost: OnLost | None = None,
        resume: Resume | None = None,
        wait: Wait | None = None,
        snapshot_id: str = "",
        watch: Watch | None = None,
        peer: str | None = None,
    ) -> SessionPort:
        """Opens a session; its constructor runs later, on the session's thread.

        With a `resume` whose key is known the session of that key is attached in its place, even if
        the snapshot is gone by now.

        Raises:
            EnvironmentNotFoundError, SessionCapacityError, DrainingError, OutOfOrderError,
                SnapshotNotFoundError.
            InvalidRequestError: the key is known, and `operation` has no number to be known by; or
                the group of `wait` makes no sense, or the snapshot is of another environment.
        """
        if operation is not None:
            verdicts.check_first(operation)
        if resume is not None and self._opener.settings.max_resume_window_s > 0:
            return self._open_for(
                resume, environment, snapshot_id, operation, deliver, on_lost, wait, watch
            )
        session = self._opener.open_session(
            environment,
            peer=self._peer if peer is None else peer,
            shared_thread=self._thread,
            on_lost=on_lost,
            wait=wait,
            holder=self,
            snapshot_id=snapshot_id,
        )
        session.watch = watch
        self._sessions[session] = session
        session.closed.add_done_callback(lambda _: self._sessions.pop(session, None))
        if operation is not None and deliver is not None:
            session.open(operation, deliver)
        return session

    def _open_for(
        self,
        resume: Resume,
        environment: str,
        snapshot_id: str,
        operation: Operation | None,
        deliver: Deliver | None,
        on_lost: OnLost | None,
        wait: Wait | None,
        watch: Watch | None,
    ) -> Hold:
        session = self._windows.known(resume.key)
        joins = session is not None
        if session is None:
            session = self._opener.open_session(
                environment,
                peer=self._peer,
                shared_thread=self._thread,
                wait=wait,
                holder=self,
                snapshot_id=snapshot_id,
            )
            self._windows.grant(session, resume)
        elif operation is not None and not operation.request_id:
            raise InvalidRequestError(
                "the session of that resume_key was opened before; send its open with request_id "
                "1, or attach to it"
            )
        elif session.queued and wait is not None:
            self._opener.keep_waiting(session, wait, self)
        hold = self._hold(session, on_lost, watch)
        if operation is not None and deliver is not None:
            (hold.submit if joins else hold.open)(operation, deliver)
        return hold

    def attach(
        self,
        session_id: str,
        resume_key: str,
        *,
        on_lost: OnLost | None = None,
        watch: Watch | None = None,
    ) -> SessionPort:
        """Takes up a session that was opened with `resume`, and fences who held it.

        Raises:
            SessionNotFoundError: there is no such session, or that is not its key.
        """
        return self._hold(self._windows.find(session_id, resume_key), on_lost, watch)

    def _hold(self, session: Session, on_lost: OnLost | None, watch: Watch | None) -> Hold:
        hold = Hold(session, on_lost, self._forget, watch)
        self._windows.hold(hold, peer=self._peer)
        if not session.closed.done():
            self._holds[hold] = hold
        return hold

    def held(self, environment: str) -> list[Session]:
        """See `Holder`."""
        own = [*self._sessions.values(), *(hold.session for hold in self._holds.values())]
        return [
            session
            for session in own
            if session.spec.name == environment and not session.queued and not session.is_over
        ]

    def _forget(self, hold: SessionPort) -> None:
        self._holds.pop(hold, None)

    def release(self, session: SessionPort) -> None:
        """Lets a session go: it stays open without this attachment, which closes it no more."""
        hold = self._holds.pop(session, None)
        released = self._sessions.pop(session, None) if hold is None else hold.session
        if released is not None:
            released.on_lost = released.watch = None
            if released.idle_timeout_s is None:
                released.watch_idle(UNHELD_IDLE_TIMEOUT_S)

    async def leave(self) -> None:
        """Ends the sessions and waits for their close, which has a limit.

        Those that have a window wait to be taken up again, unless they wait for a slot still.
        """
        left = list(self._sessions.values())
        for hold in list(self._holds.values()):
            self._windows.detach(hold)
            if hold.session.queued:
                left.append(hold.session)
        self._holds.clear()
        for session in left:
            session.on_lost = None
            session.end(verdicts.closed(), cause="its connection ended")
        await all_closed(left)


async def all_closed(sessions: list[Session]) -> None:
    """Waits until sessions have closed. Cancelling this cancels no close."""
    if sessions:
        await asyncio.wait({session.closed for session in sessions})
