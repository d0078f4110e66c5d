"""Sessions that JSON-RPC opened over HTTP: nobody's socket holds them, one may attach to each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from openenv_bridge.idling import MAX_IDLE_S, expire
from openenv_bridge.jsonrpc import JSON_RPC_CODEC, ReplyTo
from openenv_grpc.errors import (
    OpenEnvError,
    RequestConflictError,
    SessionClosedError,
    SessionNotFoundError,
)
from openenv_grpc.operations import Kind, Operation, Reply
from openenv_grpc.sessions import Attachment, SessionHost, SessionPort, SessionState, ask

OnLost = Callable[[OpenEnvError], None]


@dataclass(slots=True)
class _Lease:
    """One session that HTTP opened."""

    session: SessionPort
    closing: bool = False
    """Whether it is to be closed once its socket has left."""


class Leases:
    """The leased sessions of a bridge, and which sessions have a socket attached to them."""

    def __init__(self, host: SessionHost, attachment: Attachment) -> None:
        self._host = host
        self._attachment = attachment
        self._leases: dict[str, _Lease] = {}
        self._attached: dict[str, OnLost] = {}

    async def open(self, environment: str, reply_to: ReplyTo, *, peer: str) -> Reply:
        """Opens a session; the reply has its id. Raises what `Attachment.open` raises."""
        opened: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        operation = Operation(kind=Kind.OPEN, codec=JSON_RPC_CODEC, context=reply_to)
        session = self._attachment.open(
            environment,
            operation=operation,
            deliver=opened.set_result,
            on_lost=self._lost,
            peer=peer,
        )
        # It is known from now on: whoever guesses its id may be told that it is not ready yet.
        self._leases[session.id] = _Lease(session)
        reply = await asyncio.shield(opened)
        if reply.error is not None:
            self._leases.pop(session.id, None)
        return reply

    def find(self, session_id: str) -> SessionPort:
        """Returns a session that can be talked to, whoever opened it.

        Raises:
            SessionNotFoundError: there is none of that id.
            RequestConflictError: it is not ready yet.

        """
        try:
            session = self._host.find(session_id)
        except SessionNotFoundError as error:
            self._leases.pop(session_id, None)
            raise SessionNotFoundError(f"Unknown session_id: {session_id}") from error
        if session.info().state in (SessionState.QUEUED, SessionState.OPENING):
            raise RequestConflictError(f"Session {session_id} is still initializing")
        return session

    def attach(self, session_id: str, on_lost: OnLost) -> SessionPort:
        """Attaches a socket to a session.

        Raises:
            SessionNotFoundError: there is none of that id.
            RequestConflictError: it is not ready yet, or another socket is attached to it.

        """
        session = self.find(session_id)
        if session_id in self._attached:
            raise RequestConflictError(f"Session {session_id} already has an attached WebSocket")
        self._attached[session_id] = on_lost
        return session

    async def detach(self, session: SessionPort) -> None:
        """Lets a socket go; closes the session if that was asked for meanwhile."""
        self._attached.pop(session.id, None)
        lease = self._leases.get(session.id)
        if lease is not None and lease.closing:
            del self._leases[session.id]
            await ask(session, Operation(kind=Kind.CLOSE, codec=JSON_RPC_CODEC, context=ReplyTo()))

    def end(self, session_id: str) -> SessionPort | None:
        """Ends a session for somebody who is not attached to it.

        Returns it if the caller is to close it now; `None` if it closes when its socket has left.

        Raises:
            SessionNotFoundError, RequestConflictError: as `find`.

        """
        session = self.find(session_id)
        lease = self._leases.get(session_id)
        if lease is None:
            self._host.end_session(
                session_id, SessionClosedError("the session was closed over HTTP")
            )
            return None
        if session_id in self._attached:
            lease.closing = True
            return None
        del self._leases[session_id]
        return session

    def end_idle(self, max_idle_s: float = MAX_IDLE_S) -> None:
        """Ends the sessions that nobody has used for long."""
        for session_id, lease in list(self._leases.items()):
            idle_s = lease.session.info().idle_s
            if session_id in self._attached or idle_s is None or idle_s <= max_idle_s:
                continue
            del self._leases[session_id]
            expire(self._host, session_id, max_idle_s)

    def _lost(self, session: SessionPort, error: OpenEnvError) -> None:
        self._leases.pop(session.id, None)
        on_lost = self._attached.pop(session.id, None)
        if on_lost is not None:
            on_lost(error)
