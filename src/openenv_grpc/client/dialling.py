"""Making connections: one that carries `Connect`, or a socket for the reference's JSON."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from openenv_grpc.client.apart import TransportApart
from openenv_grpc.client.connection import Connection
from openenv_grpc.client.grpc_transport import GrpcTransport
from openenv_grpc.client.json_session import FrameSocket
from openenv_grpc.client.link import Link, Stream
from openenv_grpc.client.transport import ConnectionOptions, Transport
from openenv_grpc.client.urls import Target
from openenv_grpc.errors import NotSupportedError


@dataclass(slots=True)
class Dialled:
    """What came of dialling: a link to share, or a socket that one session alone can use."""

    link: Link | None = None
    socket: FrameSocket | None = None
    """Taken by the first who comes; others dial for themselves."""


async def dial(
    target: Target, options: ConnectionOptions, connect_timeout_s: float, *, apart: bool
) -> Dialled:
    """Makes a link, which dials again when it has lost its stream.

    With `apart` the stream is carried by a thread of its own, and JSON will not do.

    Raises:
        OpenEnvError: the server cannot be reached, or refuses.
    """
    find = partial(_stream_apart if apart else _stream, target, options, connect_timeout_s)
    stream = await find()
    if not isinstance(stream, Stream):
        return Dialled(socket=stream)

    async def dial_again() -> Stream:
        again = await find()
        if isinstance(again, Stream):
            return again
        await again.close()
        raise _speaks_json(target)

    return Dialled(link=Link(stream, dial_again))


async def _stream(
    target: Target, options: ConnectionOptions, connect_timeout_s: float
) -> Stream | FrameSocket:
    """Makes a stream; a socket for JSON where the server speaks no more than that."""
    if target.grpc:
        return await _greeted(GrpcTransport(target, options), target, options, connect_timeout_s)
    # Imported here, since it takes aiohttp, which those who speak gRPC need not load.
    from openenv_grpc.client import websocket_transport

    socket = await websocket_transport.dial(target, options, connect_timeout_s=connect_timeout_s)
    if not socket.binary:
        return socket
    return await _greeted(socket, target, options, connect_timeout_s)


async def _stream_apart(
    target: Target, options: ConnectionOptions, connect_timeout_s: float
) -> Stream:
    make = partial(_transport, target, options, connect_timeout_s)
    return await _greeted(await TransportApart.dial(make), target, options, connect_timeout_s)


async def _transport(
    target: Target, options: ConnectionOptions, connect_timeout_s: float
) -> Transport:
    if target.grpc:
        return GrpcTransport(target, options)
    from openenv_grpc.client import websocket_transport

    socket = await websocket_transport.dial(target, options, connect_timeout_s=connect_timeout_s)
    if socket.binary:
        return socket
    await socket.close()
    raise _speaks_json(target)


def _speaks_json(target: Target) -> NotSupportedError:
    return NotSupportedError(f"{target.uri} does not speak openenv_grpc.v1 any more")


async def _greeted(
    transport: Transport, target: Target, options: ConnectionOptions, connect_timeout_s: float
) -> Stream:
    connection = Connection(transport, options, target=target.uri, local=target.loopback)
    await connection.start(timeout_s=connect_timeout_s)
    return Stream(connection)


async def dial_json(
    target: Target, options: ConnectionOptions, connect_timeout_s: float
) -> FrameSocket:
    """Makes a socket for the reference's JSON. Raises an `OpenEnvError`."""
    from openenv_grpc.client import websocket_transport

    return await websocket_transport.dial(
        target, options, connect_timeout_s=connect_timeout_s, offer=False
    )
