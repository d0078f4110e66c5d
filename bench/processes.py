"""Servers and loads as processes of their own: the one place that starts them."""

from __future__ import annotations

import compileall
import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from bench.jobs import Job, Measured
from bench.sides import Door, ServerSpec

CHECKOUT = Path(__file__).resolve().parent.parent
REFERENCE = os.environ.get(
    "OPENENV_REFERENCE_PYTHON", str(CHECKOUT / ".venv-reference" / "bin" / "python")
)
RIVALS = os.environ.get("OPENENV_RIVALS_PYTHON", str(CHECKOUT / ".venv-rivals" / "bin" / "python"))
START_LIMIT_S = 180
JOB_LIMIT_S = 300
STOP_LIMITS_S = (3, 20)
SESSIONS = 8192
WITH_ARRAYS = frozenset({"SharedArrays", "Frame", "Megabyte"})


class BenchError(Exception):
    """A server did not start, or a load failed. The text says which, and ends with its words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server that listens."""

    pid: int
    doors: dict[str, str]
    start_s: float
    """Seconds from its start until it listened."""

    def url(self, door: Door) -> str:
        """Returns the URL that a client is given."""
        address = self.doors[door]
        return f"unix:{address}" if door is Door.UNIX else f"{door}://{address}"


def command(spec: ServerSpec, folder: Path) -> list[str]:
    """Returns what starts a server, with its Unix socket in a folder."""
    match spec.kind:
        case "ours":
            isolation = ["--isolation", spec.isolation] if spec.isolation else []
            pinned = ["--pin"] if spec.pinned else []
            module = "array_environments" if spec.environment in WITH_ARRAYS else "environments"
            return [
                sys.executable, "-m", "openenv_grpc.cli", "serve",
                f"bench.{module}:{spec.environment}", "--grpc-port", "0", "--http-port", "0",
                "--unix", str(folder / "socket"), "--max-sessions", str(SESSIONS),
                "--max-queued", str(SESSIONS), "--log-level", "error", *isolation, *pinned,
            ]  # fmt: skip
        case "reference" | "tuned":
            return [REFERENCE, "-m", "bench.reference_server", spec.environment, spec.kind]
        case "dm_env_rpc":
            return [RIVALS, "-m", "bench.dm_env_rpc_server", spec.environment]
        case "ping_pong":
            return [sys.executable, "-m", "bench.ping_pong"]
        case kind:
            raise ValueError(f"no server is called {kind}")


def interpreter(client: str) -> str:
    """Returns the Python that a client is installed in."""
    others = {"reference": REFERENCE, "tuned": REFERENCE, "dm_env_rpc": RIVALS}
    return others.get(client, sys.executable)


def environment_of(tree: Path) -> dict[str, str]:
    """Returns the variables with which a process imports a tree's packages and our benchmark."""
    folders = [tree / "src", tree / "bridge", tree / "envs", CHECKOUT]
    return os.environ | {"PYTHONPATH": os.pathsep.join(map(str, folders))}


@functools.cache
def _compile(tree: Path) -> None:
    """Writes the bytecode of a tree's packages, as pip does for those that it installs.

    Without it, a server that is told to write none would compile all of them at each start, which
    the reference, installed by pip, does not do either.
    """
    for folder in (tree / "src", tree / "bridge", tree / "envs", CHECKOUT / "bench"):
        compileall.compile_dir(folder, quiet=2)


@contextmanager
def _running(arguments: list[str], tree: Path) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    """Runs a process apart from the terminal's signals, and ends all that it has started."""
    with tempfile.TemporaryFile("w+") as words:
        try:
            process = subprocess.Popen(
                arguments, cwd=CHECKOUT, env=environment_of(tree), text=True,
                start_new_session=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=words,
            )  # fmt: skip
        except FileNotFoundError as error:
            raise BenchError(f"{arguments[0]} is missing: `make bench` sets it up") from error
        try:
            yield process, words
        finally:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.close()
            try:
                _end(process)
            finally:
                process.stdout.close()


def _end(process: subprocess.Popen[str]) -> None:
    """Ends a process: a server that waits for the episodes of a killed load is told twice."""
    try:
        for limit_s in STOP_LIMITS_S:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(limit_s)
                return
    finally:
        if process.poll() is None:  # also where Ctrl-C has ended the waiting
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _line(process: subprocess.Popen[str], limit_s: float) -> str:
    """Returns the next line that a process prints; an empty one once it has ended.

    A process that prints none in time is killed.
    """
    assert process.stdout is not None
    timer = threading.Timer(limit_s, process.kill)
    timer.start()
    try:
        return process.stdout.readline()
    finally:
        timer.cancel()


def _last_words(words: IO[str]) -> str:
    words.seek(0)
    return words.read()[-2000:] or "(it said nothing)"


@contextmanager
def serving(spec: ServerSpec, tree: Path = CHECKOUT) -> Iterator[Server]:
    """Runs a server while the block is entered.

    Raises:
        BenchError: it did not start.
    """
    _compile(tree)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        start = time.perf_counter()
        arguments = command(spec, Path(folder))
        with _running(arguments, tree) as (process, words):
            line = _line(process, START_LIMIT_S)
            start_s = time.perf_counter() - start
            if not line.startswith("READY"):
                raise BenchError(f"{' '.join(arguments)} did not start: {_last_words(words)}")
            doors = dict(part.split("=", 1) for part in line.split()[1:])
            yield Server(pid=process.pid, doors=doors, start_s=start_s)


class Load:
    """A process that does jobs."""

    def __init__(self, process: subprocess.Popen[str], words: IO[str]) -> None:
        self._process, self._words = process, words

    def measure(self, job: Job) -> Measured:
        """Has a job done. After an error the load is of no further use.

        Raises:
            BenchError: the job failed, or took too long.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(asdict(job)) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended; what it said is told below
        line = _line(self._process, JOB_LIMIT_S + job.seconds)
        if not line:
            raise BenchError(f"the load on {job.url} ended: {_last_words(self._words)}")
        answer = json.loads(line)
        if "failed" in answer:
            raise BenchError(f"the load on {job.url} failed: {answer['failed']}")
        measured: Measured = answer["measured"]
        return measured


@contextmanager
def loading(client: str, tree: Path = CHECKOUT) -> Iterator[Load]:
    """Runs a load process while the block is entered."""
    arguments = [interpreter(client), "-m", "bench.load", client]
    with _running(arguments, tree) as (process, words):
        yield Load(process, words)
