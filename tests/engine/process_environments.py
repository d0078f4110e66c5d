"""Environments that tests run in processes, and ways to see what became of those.

What a step does is named by its action's text.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from pydantic import ConfigDict

from openenv_grpc.environment import Environment
from openenv_grpc.types import Action, State
from tests.environments import AsyncCountdown, Count, Countdown, Counted

logger = logging.getLogger(__name__)

if os.environ.get("OPENENV_TEST_BREAKS_IMPORT") == "yes":
    raise RuntimeError("this module cannot be imported today")


class Seen(Counted):
    model_config = ConfigDict(arbitrary_types_allowed=True)

    pid: int = 0
    main_thread: bool = False
    frame: np.ndarray[Any, Any] | None = None


class Isolated(Countdown):
    """Does harm, if its actions say so."""

    ISOLATION: ClassVar[str] = "process"

    def __init__(self) -> None:
        super().__init__()
        self.started: subprocess.Popen[bytes] | None = None

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, start: int = 3
    ) -> Counted:
        super().reset(seed, episode_id, start)
        return self.seen()

    def step(self, action: Count, timeout_s: float | None = None) -> Counted:
        super().step(action, timeout_s)
        match action.text:
            case "leave":
                os._exit(7)
            case "fault":
                ctypes.string_at(0)
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "exit":
                raise SystemExit(5)
            case "log":
                logger.warning("the dragon wakes")
            case "raise":
                raise ValueError("no such move \udcff")
            case "compute":
                logger.warning("entered")
                while True:
                    pass
            case "freeze":  # with the interpreter's lock, so that no other thread runs
                logger.warning("entered")
                ctypes.PyDLL(None).pause()
            case "grab":
                bytearray(2**36)
            case "start":
                self.started = subprocess.Popen(
                    [sys.executable, "-c", "import signal; signal.pause()"]
                )
                return Seen(pid=self.started.pid)
            case "fork":
                if not (forked := os.fork()):
                    logger.warning("from elsewhere")
                    os._exit(0)
                os.waitpid(forked, 0)
            case "finish":
                return Seen(done=True)
            case "frame":
                return Seen(frame=np.arange(2**18, dtype=np.float32).reshape(512, 512))
        return self.seen(action.text)

    def seen(self, text: str = "") -> Seen:
        main_thread = threading.current_thread() is threading.main_thread()
        return Seen(left=self.left, text=text, pid=os.getpid(), main_thread=main_thread)


class Noted(Isolated):
    """Writes a file when it is closed."""

    def __init__(self, note: Path) -> None:
        super().__init__()
        self.note = note

    def close(self) -> None:
        with self.note.open("a") as file:
            file.write("closed")


class NeverClosed(Isolated):
    def close(self) -> None:
        threading.Event().wait()


class CrashesWhenBuilt(Isolated):
    def __init__(self) -> None:
        super().__init__()
        os._exit(9)


class FailsWhenBuilt(Isolated):
    def __init__(self) -> None:
        super().__init__()
        raise OSError("no screen")


class AsyncIsolated(AsyncCountdown):
    """Is awaited on a loop of its process."""

    ISOLATION: ClassVar[str] = "process"

    async def step_async(
        self, action: Count, timeout_s: float | None = None, **kwargs: Any
    ) -> Counted:
        match action.text:
            case "wait":
                logger.warning("entered")
                await asyncio.Event().wait()
            case "exit":
                raise SystemExit(5)
        counted = await super().step_async(action, timeout_s)
        return Seen(left=counted.left, pid=os.getpid())

    @property
    def state(self) -> State:
        asyncio.get_running_loop()
        return super().state


class HeldTools(Environment[Any, Any, Any]):
    """Keeps a connection to its tools, as environments of the reference do."""

    ISOLATION: ClassVar[str] = "process"

    def __init__(self, note: Path) -> None:
        super().__init__()
        self.note = note

    @asynccontextmanager
    async def mcp_session(self) -> AsyncIterator[None]:
        task = asyncio.current_task()
        yield
        self.note.write_text("left" if asyncio.current_task() is task else "left by another task")

    def reset(self, **kwargs: Any) -> Any:
        return Counted()

    def step(self, action: Action, **kwargs: Any) -> Any:
        return Counted()


def lives(pid: int) -> bool:
    """Tells whether a process runs. One that has ended but is still listed does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] not in ("Z", "X")


async def gone(*pids: int, limit_s: float = 10) -> None:
    """Waits until processes have ended. The system tells nobody but their parent."""
    async with asyncio.timeout(limit_s):
        while any(map(lives, pids)):
            await asyncio.sleep(0.005)


def gone_by_then(*pids: int, limit_s: float = 10) -> bool:
    """Waits as `gone` does, and tells whether they have."""
    end = time.monotonic() + limit_s
    while any(map(lives, pids)) and time.monotonic() < end:
        time.sleep(0.005)
    return not any(map(lives, pids))


class Entered(logging.Handler):
    """Waits for what an environment logs when it is where a test wants it."""

    def __init__(self) -> None:
        super().__init__()
        self.event = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage() == "entered":
            self.event.set()

    async def wait(self) -> None:
        async with asyncio.timeout(10):
            await self.event.wait()
        self.event.clear()

    def __enter__(self) -> Entered:
        logger.addHandler(self)
        return self

    def __exit__(self, *error: object) -> None:
        logger.removeHandler(self)
