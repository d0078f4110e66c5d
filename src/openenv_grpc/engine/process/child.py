"""One worker process, as the server sees it: started, talked to, and gone without a trace."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from openenv_grpc import lifeline
from openenv_grpc.engine.process.frames import (
    SOCKET_BYTES,
    Frame,
    FrameKind,
    FrameReader,
    anonymous_file,
    write_frame,
)
from openenv_grpc.group_process import GroupProcess

logger = logging.getLogger(__name__)

_CHUNK_BYTES = 2**18
_NOT_STARTED = 127  # as shells have it

_START = """
import gc, os, pickle, sys
gc.disable()
connection, file, pipe, parent, size = map(int, sys.argv[1:])
sys.path[:], recipe = pickle.loads(os.pread(file, size, 0))
from openenv_grpc.engine.process.main import main
main(connection, file, pipe, parent, recipe)
"""


class Tenant(Protocol):
    """Who uses a worker process."""

    def receive(self, frame: Frame) -> None:
        """Takes what it says."""
        ...

    def left_alone(self, exit_code: int) -> None:
        """Notes that it has ended, however that came."""
        ...


class Child:
    """A worker process, in a process group of its own.

    A thread starts it and waits for its end.
    """

    def __init__(self, recipe: bytes, gone: Callable[[Child], None]) -> None:
        self.tenant: Tenant | None = None
        self.warm = asyncio.Event()
        """Whether the environment's module is imported."""
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        """Its exit code, as `subprocess` has it."""
        self._loop = asyncio.get_running_loop()
        self._gone = gone
        self._process = GroupProcess()
        self._file = anonymous_file()
        self._reader = FrameReader(self._file)
        self._frames: deque[Frame] = deque()
        self._socket, self._far_socket = socket.socketpair()
        self._far_pipe, self._pipe = lifeline.hold()
        self._socket.setblocking(False)
        for end in (self._socket, self._far_socket):
            for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                end.setsockopt(socket.SOL_SOCKET, option, SOCKET_BYTES)
        os.pwrite(self._file, recipe, 0)
        self._loop.add_reader(self._socket, self._read)
        threading.Thread(
            target=self._live, args=(len(recipe),), name="openenv worker process", daemon=True
        ).start()

    # Talking to it, on the event loop

    def send(self, kind: FrameKind, *, number: int = 0, content: bytes = b"") -> None:
        """Sends a frame. To one that has ended, nothing: its tenant hears of the end."""
        if self.ended.done():
            return
        frame = write_frame(self._file, kind, number=number, content=content)
        try:
            sent = self._socket.send(frame)
        except OSError:  # it is about to end; or its socket is full, which is beyond repair
            sent = 0
        if sent < len(frame):
            self.kill()

    def kill(self) -> None:
        """Ends it at once, and what it has started."""
        self._process.kill()

    def _read(self) -> None:
        try:
            chunk = self._socket.recv(_CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if not chunk:
            self._loop.remove_reader(self._socket)
            if self.tenant is not None:  # nobody asked it to end
                self.kill()
            return
        try:
            self._frames.extend(self._reader.feed(chunk))
        except (EOFError, MemoryError):  # no frames of ours: it has fallen into other hands
            self.kill()
        self._take_all()

    def _take_all(self) -> None:
        try:
            while self._frames:
                self._take(self._frames.popleft())
        except BaseException:
            self._loop.call_soon(self._take_all)  # the loop reports it, and goes on with the rest
            raise

    def _take(self, frame: Frame) -> None:
        if frame.kind == FrameKind.LOG:
            record = logging.makeLogRecord(json.loads(frame.facts))
            if logging.getLogger(record.name).isEnabledFor(record.levelno):
                logging.getLogger(record.name).handle(record)
        elif frame.kind == FrameKind.WARM:
            self.warm.set()
        elif self.tenant is not None:
            self.tenant.receive(frame)
        elif frame.kind == FrameKind.FAILED:
            logger.error("environment cannot be imported in a worker\n%s", json.loads(frame.facts))

    def _finish(self, exit_code: int) -> None:
        with suppress(OSError, EOFError, MemoryError):  # what it said before its end counts
            while chunk := self._socket.recv(_CHUNK_BYTES):
                self._frames.extend(self._reader.feed(chunk))
        try:
            self._take_all()
        finally:
            self._release(exit_code)

    def _release(self, exit_code: int) -> None:
        self._loop.remove_reader(self._socket)
        self._socket.close()
        lifeline.let_go(self._pipe)
        os.close(self._file)
        self.ended.set_result(exit_code)
        self._gone(self)
        if self.tenant is not None:
            self.tenant.left_alone(exit_code)

    # Its life, on a thread

    def _live(self, recipe_size: int) -> None:
        exit_code = _NOT_STARTED
        try:
            exit_code = self._run(recipe_size)
        finally:
            with suppress(RuntimeError):  # the loop is closed, nobody waits any more
                self._loop.call_soon_threadsafe(self._finish, exit_code)

    def _run(self, recipe_size: int) -> int:
        ends = (self._far_socket.fileno(), self._file, self._far_pipe)
        numbers = (*ends, os.getpid(), recipe_size)
        try:
            self._process.start(["-c", _START, *map(str, numbers)], pass_fds=ends)
        except OSError:
            logger.exception("no worker process can be started")
            return _NOT_STARTED
        finally:
            self._far_socket.close()
            os.close(self._far_pipe)
        return self._process.wait()
