"""The connections of this process: which there are, and who uses them."""

from __future__ import annotations

import asyncio
import weakref
from dataclasses import dataclass

from openenv_grpc.client.connect_session import ConnectSession
from openenv_grpc.client.connection import Connection
from openenv_grpc.client.events import Audience
from openenv_grpc.client.grpc_transport import GrpcTransport
from openenv_grpc.client.json_session import FrameSocket, JsonSession
from openenv_grpc.client.link import Link, Stream
from openenv_grpc.client.operations import Group
from openenv_grpc.client.remote_session import RemoteSession
from openenv_grpc.client.time_limits import TimeLimits
from openenv_grpc.client.transport import ConnectionOptions
from openenv_grpc.client.urls import Target
from openenv_grpc.errors import NotSupportedError

Key = tuple[Target, ConnectionOptions]


@dataclass(slots=True)
class Dialled:
    """What came of dialling: a link to share, or a socket that one session alone can use."""

    link: Link | None = None
    socket: FrameSocket | None = None
    """Taken by the first who comes; others dial for themselves."""


class SharedLink:
    """A link and the number of those who use it. Closed by the last who leaves."""

    def __init__(self, key: Key, dialling: asyncio.Task[Dialled]) -> None:
        self.key = key
        self._dialling = dialling
        self._users = 0

    async def join(self) -> Dialled:
        """Waits until it stands, and becomes one of its users."""
        self._users += 1
        try:
            return await asyncio.shield(self._dialling)
        except BaseException:
            await self.leave()
            raise

    @property
    def usable(self) -> bool:
        """Whether a newcomer can join."""
        if not self._dialling.done():
            return True
        if self._dialling.cancelled() or self._dialling.exception() is not None:
            return False
        link = self._dialling.result().link
        return link is not None and link.takes_sessions

    async def leave(self) -> None:
        """Stops being one of its users."""
        self._users -= 1
        if self._users:
            return
        _forget(self.key, self)
        if not self._dialling.done():
            self._dialling.cancel()
        elif not self._dialling.cancelled() and self._dialling.exception() is None:
            dialled = self._dialling.result()
            if dialled.link is not None:
                await dialled.link.close()
            if dialled.socket is not None:
                await dialled.socket.close()


_links: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Key, SharedLink]] = (
    weakref.WeakKeyDictionary()
)
"""By event loop, since a link lives on one."""


def _forget(key: Key, shared: SharedLink) -> None:
    links = _links.get(asyncio.get_running_loop(), {})
    if links.get(key) is shared:
        del links[key]


async def open_session(
    target: Target,
    options: ConnectionOptions,
    *,
    environment: str,
    connect_timeout_s: float,
    message_timeout_s: float | None,
    resume_window_s: float | None,
    queue_timeout_s: float,
    audience: Audience,
    snapshot_id: str,
    group: Group | None = None,
) -> RemoteSession:
    """Opens a session on a server, over the connection that this process has to it if it has one.

    Where the server can, the session outlives the loss of its connection by the window, and waits
    for a slot if there is none, with all of its `group` if it is of one.

    Raises:
        OpenEnvError: the server cannot be reached, or opens none.
    """
    loop = asyncio.get_running_loop()
    key = (target, options)
    links = _links.setdefault(loop, {})
    shared = links.get(key)
    if shared is None or not shared.usable:
        dialling = loop.create_task(_dial(target, options, connect_timeout_s))
        links[key] = shared = SharedLink(key, dialling)
    dialled = await shared.join()
    if dialled.link is None:
        return await _open_json(
            dialled,
            shared,
            environment=environment,
            connect_timeout_s=connect_timeout_s,
            message_timeout_s=message_timeout_s,
            audience=audience,
            snapshot_id=snapshot_id,
        )
    try:
        session = ConnectSession(
            dialled.link,
            release=shared.leave,
            target=target.uri,
            limits=TimeLimits(message_timeout_s),
            resume_window_s=resume_window_s,
            queue_timeout_s=queue_timeout_s,
            audience=audience,
        )
    except BaseException:
        await shared.leave()
        raise
    try:
        await session.open(environment, snapshot_id=snapshot_id, group=group)
    except BaseException:
        await session.abandon()
        raise
    return session


async def _open_json(
    dialled: Dialled,
    shared: SharedLink,
    *,
    environment: str,
    connect_timeout_s: float,
    message_timeout_s: float | None,
    audience: Audience,
    snapshot_id: str,
) -> RemoteSession:
    target, options = shared.key
    for asked, what in (
        (audience.events is not None, "tells no events; leave events=True"),
        (bool(snapshot_id), "has no snapshots; leave snapshot_id"),
    ):
        if asked:
            await shared.leave()
            raise NotSupportedError(
                f"{target.uri} speaks the reference's JSON protocol, which {what} out"
            )
    if environment:
        await shared.leave()
        raise NotSupportedError(
            f"{target.uri} speaks the reference's JSON protocol, which has one environment; "
            f"leave environment={environment!r} out"
        )
    socket, dialled.socket = dialled.socket, None
    await shared.leave()
    if socket is None:
        socket = await _dial_json(target, options, connect_timeout_s)
    return JsonSession(socket, target=target.uri, message_timeout_s=message_timeout_s)


async def _dial(target: Target, options: ConnectionOptions, connect_timeout_s: float) -> Dialled:
    dialled = await _dial_once(target, options, connect_timeout_s)
    if not isinstance(dialled, Stream):
        return Dialled(socket=dialled)

    async def dial_again() -> Stream:
        again = await _dial_once(target, options, connect_timeout_s)
        if isinstance(again, Stream):
            return again
        await again.close()
        raise NotSupportedError(f"{target.uri} does not speak openenv_grpc.v1 any more")

    return Dialled(link=Link(dialled, dial_again))


async def _dial_once(
    target: Target, options: ConnectionOptions, connect_timeout_s: float
) -> Stream | FrameSocket:
    """Makes a stream; a socket for JSON where the server speaks no more than that."""
    if target.grpc:
        transport = GrpcTransport(target, options)
        connection = Connection(transport, options, target=target.uri, local=target.loopback)
        await connection.start(timeout_s=connect_timeout_s)
        return Stream(connection)
    # Imported here, since it takes aiohttp, which those who speak gRPC need not load.
    from openenv_grpc.client import websocket_transport

    socket = await websocket_transport.dial(target, options, connect_timeout_s=connect_timeout_s)
    if not socket.binary:
        return socket
    connection = Connection(socket, options, target=target.uri, local=target.loopback)
    await connection.start(timeout_s=connect_timeout_s)
    return Stream(connection)


async def _dial_json(
    target: Target, options: ConnectionOptions, connect_timeout_s: float
) -> FrameSocket:
    from openenv_grpc.client import websocket_transport

    return await websocket_transport.dial(
        target, options, connect_timeout_s=connect_timeout_s, offer=False
    )
