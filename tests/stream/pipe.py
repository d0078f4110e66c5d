"""A stream in memory: a client's end that tests hold, and a duplex for the server's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from openenv_grpc.sessions import SessionHost
from openenv_grpc.stream import StreamLimits, serve_stream
from openenv_grpc.v1 import session_pb2

LIMIT_S = 10


class Pipe:
    """Both ends. `cut` loses the peer, `end` is its half-close."""

    def __init__(self) -> None:
        self._in: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._out: asyncio.Queue[bytes] = asyncio.Queue()
        self._outcomes: list[session_pb2.Outcome] = []
        self.is_cut = False
        self.task: asyncio.Task[None] | None = None

    async def read(self) -> bytes | None:
        return await self._in.get()

    async def write(self, data: bytes) -> None:
        if self.is_cut:
            raise ConnectionResetError
        self._out.put_nowait(data)

    @property
    def unread(self) -> int:
        """How many messages the server has not read."""
        return self._in.qsize()

    def send(self, *operations: session_pb2.Operation) -> None:
        self.send_bytes(session_pb2.ConnectRequest(operations=operations).SerializeToString())

    def send_bytes(self, data: bytes) -> None:
        self._in.put_nowait(data)

    def end(self) -> None:
        self._in.put_nowait(None)

    def cut(self) -> None:
        self.is_cut = True
        self.end()

    async def response(self) -> session_pb2.ConnectResponse:
        async with asyncio.timeout(LIMIT_S):
            return session_pb2.ConnectResponse.FromString(await self._out.get())

    async def outcome(self) -> session_pb2.Outcome:
        while not self._outcomes:
            self._outcomes.extend((await self.response()).outcomes)
        return self._outcomes.pop(0)

    async def ask(self, operation: session_pb2.Operation) -> session_pb2.Outcome:
        self.send(operation)
        return await self.outcome()

    async def served(self) -> None:
        """Waits for the server's end; raises what ended it."""
        assert self.task is not None
        async with asyncio.timeout(LIMIT_S):
            await self.task


@asynccontextmanager
async def piped(host: SessionHost, limits: StreamLimits | None = None) -> AsyncIterator[Pipe]:
    pipe = Pipe()
    pipe.task = asyncio.create_task(serve_stream(pipe, host, peer="test", limits=limits))
    try:
        yield pipe
    finally:
        pipe.cut()
        await asyncio.wait({pipe.task}, timeout=LIMIT_S)


def opening(session: int = 1, request_id: int = 1, environment: str = "") -> session_pb2.Operation:
    operation = session_pb2.Operation(session=session, request_id=request_id)
    operation.open.environment = environment
    return operation


def resetting(session: int = 1, request_id: int = 2, **fields: object) -> session_pb2.Operation:
    operation = session_pb2.Operation(session=session, request_id=request_id)
    operation.reset_episode.CopyFrom(session_pb2.ResetEpisode(**fields))  # type: ignore[arg-type]
    return operation


def stepping(
    session: int = 1, request_id: int = 3, action: str = '{"by":1}'
) -> session_pb2.Operation:
    operation = session_pb2.Operation(session=session, request_id=request_id)
    operation.step.action.json = action
    return operation


def reading(session: int = 1, request_id: int = 4) -> session_pb2.Operation:
    operation = session_pb2.Operation(session=session, request_id=request_id)
    operation.get_state.SetInParent()
    return operation


def closing(session: int = 1, request_id: int = 5) -> session_pb2.Operation:
    operation = session_pb2.Operation(session=session, request_id=request_id)
    operation.close.SetInParent()
    return operation


def cancelling(session: int, request_id: int, control_id: int = 77) -> session_pb2.Operation:
    operation = session_pb2.Operation(session=session, control_id=control_id)
    operation.cancel.request_id = request_id
    return operation
