"""Servers and loads as processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
REFERENCE = os.environ.get(
    "OPENENV_REFERENCE_PYTHON", str(CHECKOUT / ".venv-reference" / "bin" / "python")
)
START_LIMIT_S = 120
LOAD_LIMIT_S = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server that listens."""

    pid: int
    grpc: str | None
    http: str
    start_s: float
    """Seconds from its start until it listened."""


def our_server(environment: str) -> list[str]:
    """Returns the command that serves one of our environments."""
    return [
        sys.executable, "-m", "openenv_grpc.cli", "serve", f"bench.environments:{environment}",
        "--grpc-port", "0", "--http-port", "0", "--max-sessions", "4096", "--log-level", "error",
    ]  # fmt: skip


def reference_server(environment: str) -> list[str]:
    """Returns the command that serves one of the reference's environments."""
    return [REFERENCE, str(CHECKOUT / "bench" / "reference_server.py"), environment]


@contextmanager
def serving(command: list[str]) -> Iterator[Server]:
    """Runs a server while the block is entered."""
    start = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        start_s = time.perf_counter() - start
        if not line.startswith("READY"):
            raise RuntimeError(f"{command} did not start; run it by hand to see why")
        doors = dict(part.split("=", 1) for part in line.split()[1:])
        yield Server(pid=process.pid, grpc=doors.get("grpc"), http=doors["http"], start_s=start_s)
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def load(
    client: str,
    mode: str,
    url: str,
    server: Server,
    *,
    sessions: int,
    seconds: float,
    action: str = "tiny",
) -> dict[str, float]:
    """Runs a load and returns what it measured."""
    python = sys.executable if client == "ours" else REFERENCE
    finished = subprocess.run(
        [
            python, str(CHECKOUT / "bench" / "load.py"), client, mode, url,
            "--pid", str(server.pid), "--sessions", str(sessions), "--seconds", str(seconds),
            "--action", action,
        ],
        cwd=CHECKOUT / "bench",
        capture_output=True,
        text=True,
        timeout=LOAD_LIMIT_S,
        check=False,
    )  # fmt: skip
    if finished.returncode != 0:
        raise RuntimeError(f"the load on {url} failed: {finished.stderr[-2000:]}")
    measured: dict[str, float] = json.loads(finished.stdout.splitlines()[-1])
    return measured
