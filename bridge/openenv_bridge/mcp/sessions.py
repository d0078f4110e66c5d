"""Sessions of MCP clients: what each has negotiated, and the environment's session behind it."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from openenv_bridge.idling import MAX_IDLE_S, expire
from openenv_bridge.mcp.codec import MCP_CODEC, Answering
from openenv_bridge.mcp.messages import LEGACY_VERSIONS, CallId
from openenv_bridge.mcp.pushes import Pushes
from openenv_bridge.mcp.requests import Requests
from openenv_grpc.access import Agent, Principal
from openenv_grpc.environment_spec import EnvironmentSpec
from openenv_grpc.errors import (
    OpenEnvError,
    Reason,
    SessionCapacityError,
    SessionNotFoundError,
)
from openenv_grpc.operations import Kind, Operation, Reply
from openenv_grpc.sessions import Attachment, SessionHost, SessionPort, ask


@dataclass(slots=True, kw_only=True, eq=False)
class McpSession:
    """What an MCP client has: a session of an environment, its own or its trainer's."""

    id: str
    port: SessionPort
    is_own: bool
    """Whether it began the environment's session, which ends with it then."""
    first: str = ""
    """The observation with which that began, as JSON. Empty if somebody else reset it."""
    version: str = LEGACY_VERSIONS[-1]
    level: str = "debug"
    """What is less urgent is not told."""
    subscribed: set[str] = field(default_factory=set)
    """URIs of resources."""
    running: dict[CallId, Operation] = field(default_factory=dict)
    offers: frozenset[str] = frozenset()
    """What its client offers to be asked."""
    requests: Requests = field(default_factory=Requests)
    """What it was asked."""
    pushes: Pushes | None = None
    """What tells it of changes, while its stream for that is open."""
    streams: int = 0
    """Responses that are open: as long as there is one, it does not idle."""
    last_used: float = 0.0


class McpSessions:
    """The sessions of MCP clients of a bridge."""

    def __init__(
        self,
        host: SessionHost,
        attachment: Attachment,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host = host
        self._attachment = attachment
        self._clock = clock
        self._sessions: dict[str, McpSession] = {}
        self._clients: dict[str, dict[str, McpSession]] = {}  # of each session of the environment
        self._unclaimed: dict[str, McpSession] = {}  # begun by a call, and not named since
        self._tasks: set[asyncio.Task[None]] = set()
        self._pushes: set[Pushes] = set()

    async def begin(self, spec: EnvironmentSpec, *, peer: str) -> McpSession:
        """Opens a session of an environment and resets it, where the server's mode has resets.

        Raises:
            OpenEnvError: the environment could not be built or reset, or there is no room, or the
                peer opens too often.
        """
        try:
            return await self._begin(spec, peer)
        except SessionCapacityError as error:
            # Without a number of sessions it came too early, and a slot would not help.
            if "max_sessions" not in error.metadata or not await self._end_unclaimed(spec):
                raise
            return await self._begin(spec, peer)

    async def begin_unclaimed(self, spec: EnvironmentSpec, *, peer: str) -> McpSession:
        """Begins a session that ends if nobody names it and another needs its place."""
        session = await self.begin(spec, peer=peer)
        self._unclaimed[session.port.id] = session
        return session

    async def _begin(self, spec: EnvironmentSpec, peer: str) -> McpSession:
        opened: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

        def deliver(reply: Reply) -> None:
            if not opened.done():
                opened.set_result(reply)

        port = self._attachment.open(
            spec.name,
            operation=_operation(Kind.OPEN),
            deliver=deliver,
            on_lost=self._lost,
            peer=peer,
        )
        session = McpSession(id=uuid.uuid4().hex, port=port, is_own=True)
        try:
            (await opened).written()
            reply = await ask(port, _operation(Kind.RESET))
            if reply.error is None or reply.error.reason is not Reason.MODE_FORBIDS:
                session.first = reply.written().decode()
        except BaseException:
            self._forget(port)
            port.submit(_operation(Kind.CLOSE), _ignored)
            raise
        return self._keep(session)

    def join(self, session_id: str) -> McpSession:
        """Makes an MCP client one of a session that somebody else opened.

        Raises:
            SessionNotFoundError: there is none of that id.
        """
        port = self._host.find(session_id)
        self.claim(session_id)
        return self._keep(McpSession(id=uuid.uuid4().hex, port=port, is_own=False))

    def claim(self, session_id: str) -> SessionPort:
        """Returns a session that was named, by whoever opened it.

        Raises:
            SessionNotFoundError: there is none of that id.
        """
        session = self._unclaimed.pop(session_id, None)
        if session is not None:
            session.last_used = self._clock()
        return self._host.find(session_id)

    def first(self, session_id: str) -> str:
        """Returns the observation with which a session began; empty if that is not known."""
        return next((each.first for each in self._clients.get(session_id, {}).values()), "")

    def find(self, session_id: str, principal: Principal) -> McpSession:
        """Returns a client's session.

        Raises:
            SessionNotFoundError: there is none of that id, or the principal may not have it.
        """
        session = self._sessions.get(session_id)
        foreign = (
            session is not None
            and isinstance(principal, Agent)
            and principal.session_id != session.port.id
        )
        if session is None or foreign:
            raise SessionNotFoundError("there is no such session; begin anew with initialize")
        try:
            self._host.find(session.port.id)
        except SessionNotFoundError:
            self._drop(session)
            raise
        session.last_used = self._clock()
        return session

    @contextmanager
    def listening(self, port: SessionPort | None, pushes: Pushes) -> Iterator[None]:
        """Has a client told what is done in a session, if any, which does not idle meanwhile."""
        listened_in = [] if port is None else [*self._clients.get(port.id, {}).values()]
        leave = None if port is None else port.follow(pushes)
        self._pushes.add(pushes)
        for session in listened_in:
            session.streams += 1
        try:
            yield
        finally:
            for session in listened_in:
                session.streams -= 1
                session.last_used = self._clock()
            self._pushes.discard(pushes)
            if leave is not None:
                leave()

    async def end_pushes(self) -> None:
        """Ends what tells clients of changes."""
        for pushes in self._pushes:
            pushes.ended()

    async def end(self, session: McpSession) -> None:
        """Ends a client's session, and that of the environment if the client began it."""
        self._drop(session)
        if session.is_own:
            self._forget(session.port)
            await ask(session.port, _operation(Kind.CLOSE))

    def end_idle(self, max_idle_s: float = MAX_IDLE_S) -> None:
        """Ends the sessions that nobody has used for long."""
        now = self._clock()
        for session in list(self._sessions.values()):
            idle_s = session.port.info().idle_s
            unused_s = now - session.last_used
            if session.streams or idle_s is None or min(idle_s, unused_s) <= max_idle_s:
                continue
            self._drop(session)
            if session.is_own:
                self._forget(session.port)
                expire(self._host, session.port.id, max_idle_s)

    def spawn(self, task: asyncio.Task[None]) -> None:
        """Keeps what outlives the request that asked for it."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Cancels what still runs."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _keep(self, session: McpSession) -> McpSession:
        session.last_used = self._clock()
        self._sessions[session.id] = session
        self._clients.setdefault(session.port.id, {})[session.id] = session
        return session

    def _drop(self, session: McpSession) -> None:
        """Forgets a client's session."""
        self._sessions.pop(session.id, None)
        clients = self._clients.get(session.port.id, {})
        clients.pop(session.id, None)
        if not clients:
            self._clients.pop(session.port.id, None)
        if session.pushes is not None:
            session.pushes.ended()

    async def _end_unclaimed(self, spec: EnvironmentSpec) -> bool:
        """Ends the oldest session of an environment that a call began and none has named."""
        for session in self._unclaimed.values():
            if session.port.spec.name == spec.name and session.port.info().idle_s is not None:
                await self.end(session)
                return True
        return False

    def _lost(self, port: SessionPort, error: OpenEnvError) -> None:
        self._forget(port)

    def _forget(self, port: SessionPort) -> None:
        self._unclaimed.pop(port.id, None)
        for session_id in self._clients.pop(port.id, {}):
            self._sessions.pop(session_id, None)


def _operation(kind: Kind) -> Operation:
    return Operation(kind=kind, codec=MCP_CODEC, context=Answering(id=0))


def _ignored(reply: Reply) -> None:
    """Takes the reply of a close that nobody waits for."""
