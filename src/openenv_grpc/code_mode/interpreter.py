"""Runs code in a process of its own, which has limits, and calls tools for it on this thread."""

from __future__ import annotations

import math
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from openenv_grpc import lifeline
from openenv_grpc.code_mode.channel import Channel
from openenv_grpc.errors import OpenEnvError
from openenv_grpc.serialization import to_plain
from openenv_grpc.types import JsonValue

MAX_STDOUT_BYTES = 64 * 2**10
"""How much is kept of what code prints."""

_WORKER = Path(__file__).with_name("worker.py")
_CPU_SPARE_S = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeLimits:
    """What a piece of code may use."""

    timeout_s: float = 30.0
    """Time from its start to its end, its tools' included."""
    memory_bytes: int = 2**30
    """Address space of its process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeOutcome:
    """What came of a piece of code."""

    result: JsonValue = None
    """Its variable `result`; as text, where JSON has no such value."""
    stdout: str = ""
    """What it has printed, errors of its process included. The first 64 KiB."""
    error: str | None = None
    """Why it failed; `None` if it did not."""


def run_code(
    code: str, functions: Mapping[str, Callable[..., Any]], limits: CodeLimits
) -> CodeOutcome:
    """Runs code to its end, with functions that are called here, on the calling thread.

    The process has an empty folder of its own to work in, which is removed, none of this
    process's environment, and on Linux no network where the kernel allows that. It ends with this
    process, and what it has started with it.

    Raises:
        OSError: no process can be started.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="openenv-code-"))
        printed = stack.enter_context(tempfile.TemporaryFile())
        connection, process = stack.enter_context(_started(folder, printed, limits))
        ends_at = time.monotonic() + limits.timeout_s
        try:
            outcome = _talk(Channel(connection), code, functions, ends_at)
        except TimeoutError:
            outcome = CodeOutcome(error=f"the code did not end within {limits.timeout_s:g} seconds")
        except (EOFError, OSError):
            outcome = None
        exit_code = _end(process)
        printed.seek(0)
        stdout = printed.read(MAX_STDOUT_BYTES).decode("utf-8", "replace")
    if outcome is None:
        outcome = CodeOutcome(error=_lost(exit_code))
    return replace(outcome, stdout=stdout)


@contextmanager
def _started(
    folder: str, printed: IO[bytes], limits: CodeLimits
) -> Iterator[tuple[socket.socket, subprocess.Popen[bytes]]]:
    """Starts an interpreter; sees to its end, whatever happens in the block."""
    far_pipe, pipe = lifeline.hold()
    connection, far_connection = socket.socketpair()
    try:
        ends = (far_connection.fileno(), far_pipe)
        numbers = (
            *ends,
            os.getpid(),
            limits.memory_bytes,
            math.ceil(limits.timeout_s) + _CPU_SPARE_S,
        )
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", str(_WORKER), *map(str, numbers)],
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env={"PATH": os.defpath, "HOME": folder, "TMPDIR": folder, "LANG": "C.UTF-8"},
                pass_fds=ends,
                start_new_session=True,
            )
        finally:
            far_connection.close()
            os.close(far_pipe)
        try:
            yield connection, process
        finally:
            _end(process)
    finally:
        connection.close()
        lifeline.let_go(pipe)


def _end(process: subprocess.Popen[bytes]) -> int:
    """Ends the process and its group; returns its exit code. Does nothing the second time."""
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):  # macOS says so of the dead
            os.killpg(process.pid, signal.SIGKILL)  # as long as it is not waited for, it is ours
    return process.wait()


def _talk(
    channel: Channel, code: str, functions: Mapping[str, Callable[..., Any]], ends_at: float
) -> CodeOutcome:
    channel.send({"code": code, "tools": list(functions)})
    while True:
        remaining_s = ends_at - time.monotonic()
        if remaining_s <= 0:
            raise TimeoutError
        match channel.receive(remaining_s):
            case {"done": {"error": str(error)}}:
                return CodeOutcome(error=error)
            case {"done": {"result": result}}:
                return CodeOutcome(result=result)
            case {"call": str(name), "args": list(args), "kwargs": dict(kwargs)}:
                channel.send(_answer(functions, name, args, kwargs))
            case _:
                raise EOFError("that is no message")


def _answer(
    functions: Mapping[str, Callable[..., Any]],
    name: str,
    args: list[JsonValue],
    kwargs: dict[str, JsonValue],
) -> dict[str, JsonValue]:
    if name not in functions:
        return {"error": f"there is no tool {name!r}"}
    try:
        return {"value": to_plain(functions[name](*args, **kwargs))}
    except OpenEnvError as error:
        return {"error": error.message}
    except Exception as error:  # a tool may raise anything
        return {"error": str(error) or type(error).__name__}


def _lost(exit_code: int) -> str:
    """Tells how a process ended that did not say what came of its code."""
    if exit_code == -signal.SIGXCPU:
        return "the code used up its time on the processor"
    if exit_code < 0:
        return f"the code ended its process, by signal {-exit_code}"
    return f"the code ended its process, with exit code {exit_code}"
