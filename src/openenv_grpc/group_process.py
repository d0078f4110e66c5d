"""A process in a group of its own, which ends as a whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress


class GroupProcess:
    """Starts a process, waits for its end on a thread, and then ends what is left of its group."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._pid: int | None = None
        self._killed = False
        self._lock = threading.Lock()  # guards `_pid`, so that no other process is ever signalled

    def start(
        self, arguments: Sequence[str], *, pass_fds: Sequence[int], content: bytes | None = None
    ) -> None:
        """Starts Python with these arguments; it reads `content` from its standard input.

        Raises:
            OSError: it cannot be started.
        """
        process = self._process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.DEVNULL if content is None else subprocess.PIPE,
            pass_fds=pass_fds,
            start_new_session=True,
        )
        with self._lock:
            self._pid = process.pid
            if self._killed:
                self._signal_group()
        if process.stdin is not None and content is not None:
            with suppress(BrokenPipeError), process.stdin as stdin:  # it may have ended already
                stdin.write(content)

    def wait(self) -> int:
        """Waits for its end, and ends its group. Returns its exit code, as `subprocess` has it."""
        process = self._process
        assert process is not None  # started before it is waited for
        if sys.platform == "linux":  # as long as it is not reaped, nobody else has its number
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        else:
            process.wait()
        with self._lock:
            self._signal_group()
            self._pid = None
        return process.wait()

    def kill(self) -> None:
        """Ends it at once, and what it has started; also if it is still to be started."""
        with self._lock:
            self._killed = True
            self._signal_group()

    def interrupt(self) -> None:
        """Asks it, and nothing that it has started, to end."""
        with self._lock:
            if self._pid is not None:
                os.kill(self._pid, signal.SIGINT)

    def _signal_group(self) -> None:
        if self._pid is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, signal.SIGKILL)
