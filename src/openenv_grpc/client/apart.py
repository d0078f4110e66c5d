"""A transport on a thread of its own, so that what it carries holds nobody up but itself.

A message of megabytes takes its event loop milliseconds: to read it from the socket, bit by bit,
and to join what was read.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Self, TypeVar

from openenv_grpc.client.transport import Transport
from openenv_grpc.errors import OpenEnvError, UnavailableError

ResultT = TypeVar("ResultT")

_CLOSE_TIMEOUT_S = 4.0
_LINGER_S = 0.05  # since a socket that is closed has still to write what it was given


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Makes an event loop for a thread that is ours: uvloop's, where that is installed."""
    try:
        import uvloop  # faster, where it is installed
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class TransportApart:
    """Implements `Transport` by another one, which lives on an event loop of its own."""

    def __init__(self) -> None:
        self._caller = asyncio.get_running_loop()
        self._loop = new_event_loop()
        self._leave = asyncio.Event()
        self._left: asyncio.Future[None] = self._caller.create_future()
        self._thread = threading.Thread(target=self._run, name="openenv-grpc large", daemon=True)
        self._reading: concurrent.futures.Future[bytes | None] | None = None
        self._transport: Transport | None = None

    @classmethod
    async def dial(cls, make: Callable[[], Coroutine[Any, Any, Transport]]) -> Self:
        """Starts the thread and has the transport made there. Raises what `make` raises."""
        apart = cls()
        apart._thread.start()
        try:
            await apart._there(apart._make(make))
        except BaseException:
            await apart._end()
            raise
        return apart

    async def read(self) -> bytes | None:
        """See `Transport`. The next message is read while this one is dealt with."""
        reading = self._reading or self._start(self._made.read())
        data = await asyncio.wrap_future(reading)
        self._reading = None if data is None else self._start(self._made.read())
        return data

    async def write(self, data: bytes) -> None:
        """See `Transport`."""
        await self._there(self._made.write(data))

    async def close(self) -> None:
        """See `Transport`."""
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.cancel()
        await self._end()
        self._transport = None

    async def _make(self, make: Callable[[], Coroutine[Any, Any, Transport]]) -> None:
        self._transport = await make()

    @property
    def _made(self) -> Transport:
        if self._transport is None or self._leave.is_set():
            raise UnavailableError("the connection was closed")
        return self._transport

    def _start(self, call: Coroutine[Any, Any, ResultT]) -> concurrent.futures.Future[ResultT]:
        return asyncio.run_coroutine_threadsafe(call, self._loop)

    async def _there(self, call: Coroutine[Any, Any, ResultT]) -> ResultT:
        return await asyncio.wrap_future(self._start(call))

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._stay())
        finally:
            with contextlib.suppress(RuntimeError):  # the caller's loop may be closed already
                self._caller.call_soon_threadsafe(self._note_left)

    async def _stay(self) -> None:
        """Keeps the loop until it is to be left, and what was cancelled there has cleaned up."""
        await self._leave.wait()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if others:
            await asyncio.wait(others, timeout=_CLOSE_TIMEOUT_S)
        if self._transport is not None:  # though its caller may have given up before it was made
            with contextlib.suppress(OpenEnvError, OSError):
                await self._transport.close()
        await asyncio.sleep(_LINGER_S)

    def _note_left(self) -> None:
        if not self._left.done():
            self._left.set_result(None)

    async def _end(self) -> None:
        if not self._left.done():
            with contextlib.suppress(RuntimeError):  # its loop may just have been closed
                self._loop.call_soon_threadsafe(self._leave.set)
            await asyncio.shield(self._left)
        self._thread.join()  # at once, since that was the last it did
