"""Replays conversations over a plain gRPC stream or a plain WebSocket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import aiohttp
import grpc.aio

from openenv_grpc.v1 import session_pb2, session_pb2_grpc
from tests.transcripts.transcripts import Act, Block, Names, read

LIMIT_S = 20
SUBPROTOCOL = "openenv-grpc.v1"


class Mismatch(AssertionError):
    """The server said something else."""


class Stream(Protocol):
    """A `Connect` stream."""

    async def send(self, request: session_pb2.ConnectRequest) -> None: ...

    async def receive(self) -> session_pb2.ConnectResponse | None: ...

    async def end(self) -> None: ...


class GrpcStream:
    def __init__(self, channel: grpc.aio.Channel) -> None:
        stub: Any = session_pb2_grpc.SessionServiceStub(channel)
        self._call = stub.Connect()

    async def send(self, request: session_pb2.ConnectRequest) -> None:
        await self._call.write(request)

    async def receive(self) -> session_pb2.ConnectResponse | None:
        came = await self._call.read()
        return came if isinstance(came, session_pb2.ConnectResponse) else None

    async def end(self) -> None:
        await self._call.done_writing()


class WebSocketStream:
    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket

    async def send(self, request: session_pb2.ConnectRequest) -> None:
        await self._socket.send_bytes(request.SerializeToString())

    async def receive(self) -> session_pb2.ConnectResponse | None:
        came = await self._socket.receive()
        if came.type is not aiohttp.WSMsgType.BINARY:
            return None
        return session_pb2.ConnectResponse.FromString(came.data)

    async def end(self) -> None:
        await self._socket.close()


Opener = Callable[[AsyncExitStack], Awaitable[Stream]]


@asynccontextmanager
async def streams_to(url: str) -> AsyncIterator[Opener]:
    """Yields what opens streams to `grpc://HOST:PORT` or `http://HOST:PORT`."""
    scheme, _, address = url.partition("://")
    if scheme == "grpc":
        async with grpc.aio.insecure_channel(address) as channel:

            async def by_grpc(_: AsyncExitStack) -> Stream:
                return GrpcStream(channel)

            yield by_grpc
    else:
        async with aiohttp.ClientSession() as session:

            async def by_socket(stack: AsyncExitStack) -> Stream:
                socket = session.ws_connect(f"{url}/ws", protocols=[SUBPROTOCOL])
                return WebSocketStream(await stack.enter_async_context(socket))

            yield by_socket


class Replay:
    """One conversation with one server."""

    def __init__(self, path: Path, open_stream: Opener, drain: Callable[[], Awaitable[None]]):
        self._path = path
        self._open_stream = open_stream
        self._drain = drain
        self._names = Names()
        self._streams: dict[str, Stream] = {}
        self._came: dict[str, list[session_pb2.Outcome]] = {}

    async def run(self) -> None:
        """Raises `Mismatch` where the server does not hold its part."""
        async with AsyncExitStack() as stack:
            for block in read(self._path):
                try:
                    async with asyncio.timeout(LIMIT_S):
                        await self._do(block, stack)
                except TimeoutError as error:
                    raise Mismatch(f"{self._at(block)}: nothing came in {LIMIT_S} s") from error

    async def _do(self, block: Block, stack: AsyncExitStack) -> None:
        if block.act is Act.DRAIN:
            await self._drain()
            return
        if block.stream not in self._streams:
            self._streams[block.stream] = await self._open_stream(stack)
            self._came[block.stream] = []
        stream = self._streams[block.stream]
        if block.act is Act.SEND:
            await stream.send(self._names.request(block))
        elif block.act is Act.END:
            await stream.end()
            while (response := await stream.receive()) is not None:
                if response.outcomes:
                    raise Mismatch(f"{self._at(block)}: unexpected {response}")
        else:
            await self._expect(block, stream, self._names.response(block))

    async def _expect(
        self, block: Block, stream: Stream, expected: session_pb2.ConnectResponse
    ) -> None:
        waiting = list(expected.outcomes)
        greeted = not expected.HasField("server")
        came = self._came[block.stream]
        while waiting or not greeted:
            if came:
                self._match(block, waiting, came.pop(0))
                continue
            response = await stream.receive()
            if response is None:
                raise Mismatch(f"{self._at(block)}: the stream ended before {waiting}")
            greeted = greeted or response.HasField("server")
            came.extend(response.outcomes)

    def _match(
        self, block: Block, waiting: list[session_pb2.Outcome], came: session_pb2.Outcome
    ) -> None:
        for number, expected in enumerate(waiting):
            if expected.session == came.session:
                if not self._names.fits_outcome(expected, came):
                    raise Mismatch(f"{self._at(block)}: expected\n{expected}\ncame\n{came}")
                del waiting[number]
                return
        raise Mismatch(
            f"{self._at(block)}: nothing expected of session {came.session}, came\n{came}"
        )

    def _at(self, block: Block) -> str:
        return f"{self._path.name}:{block.line}"
