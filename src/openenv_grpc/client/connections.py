"""The connections of this process: which there are, and who uses them.

There is one to a server, and a second one for sessions whose outcomes are large, if there are some.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from dataclasses import dataclass
from functools import partial

from openenv_grpc.client.connect_session import ConnectSession
from openenv_grpc.client.dialling import Dialled, dial, dial_json
from openenv_grpc.client.events import Audience
from openenv_grpc.client.json_session import JsonSession
from openenv_grpc.client.moving import AGAIN_S
from openenv_grpc.client.operations import Group
from openenv_grpc.client.remote_session import RemoteSession
from openenv_grpc.client.ride import Berth
from openenv_grpc.client.time_limits import TimeLimits
from openenv_grpc.client.transport import ConnectionOptions
from openenv_grpc.client.urls import Target
from openenv_grpc.crew import Crew
from openenv_grpc.errors import NotSupportedError, OpenEnvError, UnavailableError
from openenv_grpc.events import log_event

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Key:
    """What those have in common who share a link."""

    target: Target
    options: ConnectionOptions
    large: bool = False
    """Whether it is the second one, which takes up sessions and opens none."""


class SharedLink:
    """A link and the number of those who use it. Closed by the last who leaves."""

    def __init__(
        self, key: Key, dialling: asyncio.Task[Dialled], beside: SharedLink | None = None
    ) -> None:
        self.key = key
        self.alone_until = 0.0
        """When the server may be asked again for a second one, after it gave none."""
        self._dialling = dialling
        self._users = 0
        self._keepers = 0  # of the users, those that only keep it
        self._beside = beside  # what is kept as long as this is
        if beside is not None:
            beside._users += 1
            beside.keep()

    async def join(self) -> Dialled:
        """Waits until it stands, and becomes one of its users."""
        self._users += 1
        try:
            return await asyncio.shield(self._dialling)
        except BaseException:
            await self.leave()
            raise

    @property
    def session_count(self) -> int:
        """How many sessions are on it, or are about to be."""
        return self._users - self._keepers

    def keep(self) -> None:
        """Notes that a user has no session on it, and will have none: it keeps it for others."""
        self._keepers += 1

    async def let_go(self) -> None:
        """Stops being one of the users that only keep it."""
        self._keepers -= 1
        await self.leave()

    @property
    def usable(self) -> bool:
        """Whether a newcomer can join."""
        if not self._dialling.done():
            return True
        if self._dialling.cancelled() or self._dialling.exception() is not None:
            return False
        link = self._dialling.result().link
        return link is not None and link.takes_sessions

    @property
    def stands(self) -> bool:
        """Whether sessions can be opened over it now."""
        return self._dialling.done() and self.usable

    async def leave(self) -> None:
        """Stops being one of its users."""
        self._users -= 1
        if self._users:
            return
        _forget(self.key, self)
        if not self._dialling.done():
            self._dialling.cancel()
            await asyncio.wait((self._dialling,))
        if not self._dialling.cancelled() and self._dialling.exception() is None:
            dialled = self._dialling.result()
            if dialled.link is not None:
                await dialled.link.close()
            if dialled.socket is not None:
                await dialled.socket.close()
        if self._beside is not None:
            await self._beside.let_go()


_links: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Key, SharedLink]] = (
    weakref.WeakKeyDictionary()
)
"""By event loop, since a link lives on one."""


def _forget(key: Key, shared: SharedLink) -> None:
    links = _links.get(asyncio.get_running_loop(), {})
    if links.get(key) is shared:
        del links[key]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a client wants of its session."""

    environment: str
    connect_timeout_s: float
    message_timeout_s: float | None
    resume_window_s: float | None
    queue_timeout_s: float
    audience: Audience
    snapshot_id: str


@dataclass(frozen=True, slots=True)
class Joined:
    """A connection, and a user's part in it: whoever has it leaves the connection in the end."""

    shared: SharedLink
    dialled: Dialled

    @property
    def target(self) -> Target:
        """Where it leads."""
        return self.shared.key.target

    @property
    def crew(self) -> Crew | None:
        """The worker processes of the server, if it has several."""
        link = self.dialled.link
        return None if link is None else link.limits.crew


def _share(key: Key, connect_timeout_s: float, beside: SharedLink | None = None) -> SharedLink:
    """Returns the link that there is, or one that is being dialled."""
    loop = asyncio.get_running_loop()
    links = _links.setdefault(loop, {})
    shared = links.get(key)
    if shared is None or not shared.usable:
        dialling = loop.create_task(
            dial(key.target, key.options, connect_timeout_s, apart=key.large)
        )
        links[key] = shared = SharedLink(key, dialling, beside)
    return shared


async def _find_other(first: SharedLink, connect_timeout_s: float) -> Berth:
    """Gives a place on the link for large outcomes, next to a first one.

    Raises:
        OpenEnvError: there is none. The first who learns of it logs it.
    """
    key = Key(first.key.target, first.key.options, large=True)
    now = asyncio.get_running_loop().time()
    if now < first.alone_until:
        raise UnavailableError(f"there is no second connection to {key.target.uri}")
    shared = _share(key, connect_timeout_s)
    try:
        dialled = await shared.join()
    except OpenEnvError as error:
        if now >= first.alone_until:
            first.alone_until = now + AGAIN_S
            _log_alone(key.target, error)
        raise
    assert dialled.link is not None  # since no socket comes of it
    return Berth(dialled.link, shared.leave)


def _log_alone(target: Target, error: OpenEnvError) -> None:
    log_event(
        logger,
        logging.WARNING,
        "no second connection for large outcomes",
        target=target.uri,
        reason=error.message,
    )


async def join(
    target: Target,
    options: ConnectionOptions,
    *,
    connect_timeout_s: float,
    beside: Joined | None = None,
) -> Joined:
    """Joins the connection that this process has to a server, or makes one.

    One that is made stays `beside` another, which is kept as long as it is used.

    Raises:
        OpenEnvError: the server cannot be reached.
    """
    kept = None if beside is None else beside.shared
    shared = _share(Key(target, options), connect_timeout_s, kept)
    return Joined(shared, await shared.join())


def session_count(target: Target, options: ConnectionOptions) -> int:
    """Returns how many sessions this process has over its connections to a server."""
    links = _links.get(asyncio.get_running_loop(), {})
    found = (links.get(Key(target, options, large=large)) for large in (False, True))
    return sum(shared.session_count for shared in found if shared is not None)


def stands(target: Target, options: ConnectionOptions) -> bool:
    """Tells whether this process has a connection to a server that takes sessions now."""
    shared = _links.get(asyncio.get_running_loop(), {}).get(Key(target, options))
    return shared is not None and shared.stands


async def open_session(
    joined: Joined, wanted: Wanted, *, group: Group | None = None
) -> RemoteSession:
    """Opens a session over a connection, which is left when the session ends, or if none is opened.

    Where the server can, the session outlives the loss of its connection by the window, and waits
    for a slot if there is none, with all of its `group` if it is of one.

    Raises:
        OpenEnvError: the server opens none.
    """
    shared, dialled = joined.shared, joined.dialled
    if dialled.link is None:
        return await _open_json(dialled, shared, wanted)
    try:
        session = ConnectSession(
            Berth(dialled.link, shared.leave),
            find_other=partial(_find_other, shared, wanted.connect_timeout_s),
            target=joined.target.uri,
            limits=TimeLimits(wanted.message_timeout_s),
            resume_window_s=wanted.resume_window_s,
            queue_timeout_s=wanted.queue_timeout_s,
            audience=wanted.audience,
        )
    except BaseException:
        await shared.leave()
        raise
    try:
        await session.open(wanted.environment, snapshot_id=wanted.snapshot_id, group=group)
    except BaseException:
        await session.abandon()
        raise
    return session


async def _open_json(dialled: Dialled, shared: SharedLink, wanted: Wanted) -> RemoteSession:
    target, options = shared.key.target, shared.key.options
    for asked, what in (
        (wanted.audience.events is not None, "tells no events; leave events=True"),
        (bool(wanted.snapshot_id), "has no snapshots; leave snapshot_id"),
    ):
        if asked:
            await shared.leave()
            raise NotSupportedError(
                f"{target.uri} speaks the reference's JSON protocol, which {what} out"
            )
    if wanted.environment:
        await shared.leave()
        raise NotSupportedError(
            f"{target.uri} speaks the reference's JSON protocol, which has one environment; "
            f"leave environment={wanted.environment!r} out"
        )
    socket, dialled.socket = dialled.socket, None
    await shared.leave()
    if socket is None:
        socket = await dial_json(target, options, wanted.connect_timeout_s)
    return JsonSession(socket, target=target.uri, message_timeout_s=wanted.message_timeout_s)
