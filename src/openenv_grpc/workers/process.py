"""One worker process, as its supervisor sees it: started, listened to, ended."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

from openenv_grpc import lifeline
from openenv_grpc.group_process import GroupProcess
from openenv_grpc.workers.line import Line, Message

END_TIMEOUT_S = 30.0
"""How long a worker that is asked to end may close its environments."""

LAST_WORDS_S = 1.0

NOT_STARTED = 127
"""The exit code of a process that could not be started, as shells have it."""

_START = """
import pickle, sys
control, pipe, parent = map(int, sys.argv[1:])
sys.path[:] = pickle.load(sys.stdin.buffer)
from openenv_grpc.workers.main import main
main(control, pipe, parent, sys.stdin.buffer)
"""


class WorkerProcess:
    """A process that serves, in a process group of its own, which ends with the supervisor."""

    def __init__(self, content: bytes) -> None:
        """Starts it."""
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[int] = self._loop.create_future()
        self._process = GroupProcess()
        self._listens = False
        own, self._far_end = socket.socketpair()
        self._far_pipe, self._pipe = lifeline.hold()
        self.line = Line(own)
        threading.Thread(
            target=self._live, args=(content,), name="openenv server worker", daemon=True
        ).start()

    async def follow(self, hear: Callable[[Message], None]) -> int:
        """Hands on what it says until it has ended. Returns its exit code.

        Cancelled, or if `hear` raises, it ends the process.
        """
        listening = self._loop.create_task(self._listen(hear), name="openenv server worker")
        try:
            await asyncio.wait((self._ended, listening), return_when=asyncio.FIRST_COMPLETED)
            if listening.done():
                listening.result()  # raises what `hear` did; else the process is about to end
            return await asyncio.shield(self._ended)
        finally:
            await self._end()
            # All that it said is there, and then the end, unless somebody else holds its socket.
            await asyncio.wait((listening,), timeout=LAST_WORDS_S)
            listening.cancel()
            self.line.close()
            lifeline.let_go(self._pipe)

    async def _listen(self, hear: Callable[[Message], None]) -> None:
        async for message in self.line.messages():
            self._listens = True
            hear(message)

    def stop(self) -> None:
        """Has it end without waiting for episodes; at once if it does not listen yet."""
        if self._listens:
            self._process.interrupt()
        else:
            self._process.kill()

    async def _end(self) -> None:
        if not self._ended.done():
            self.stop()
            with suppress(TimeoutError):
                async with asyncio.timeout(END_TIMEOUT_S):
                    await asyncio.shield(self._ended)
        self._process.kill()
        await self._ended

    # On a thread

    def _live(self, content: bytes) -> None:
        exit_code = NOT_STARTED
        ends = self._far_end.fileno(), self._far_pipe
        arguments = ["-c", _START, *map(str, (*ends, os.getpid()))]
        try:
            try:
                self._process.start(arguments, pass_fds=ends, content=content)
            finally:
                self._far_end.close()
                os.close(self._far_pipe)
            exit_code = self._process.wait()
        except OSError:
            pass  # its exit code tells
        finally:
            with suppress(RuntimeError):  # the loop is closed, nobody waits any more
                self._loop.call_soon_threadsafe(self._ended.set_result, exit_code)
