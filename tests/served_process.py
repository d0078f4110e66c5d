"""A server in a process of its own, as its users start it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).parent.parent


@dataclass(frozen=True)
class ServedProcess:
    """A server that listens."""

    process: subprocess.Popen[str]
    ready: str
    """The line by which it said so."""
    log: Path
    """What it writes to standard error."""

    def address(self, door: str) -> str:
        """Returns where a door is."""
        found = re.search(rf"\b{door}=(\S+)", self.ready)
        assert found is not None, self.ready
        return found[1]


@contextmanager
def start_server(
    log_folder: Path,
    *arguments: str,
    python: str | Path = sys.executable,
    ports: tuple[str, ...] = ("--grpc-port", "0", "--http-port", "0"),
    environment: Mapping[str, str] | None = None,
    cwd: Path = CHECKOUT,
) -> Iterator[ServedProcess]:
    """Runs `openenv-grpc serve` on free ports; its log is written into a folder."""
    log = log_folder / "server.log"
    with (
        log.open("w", encoding="utf-8") as errors,
        subprocess.Popen(
            [python, "-m", "openenv_grpc.cli", "serve", *arguments, *ports],
            cwd=cwd,
            env={**os.environ, **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        try:
            ready = process.stdout.readline()
            assert ready.startswith("READY "), log.read_text(encoding="utf-8")
            yield ServedProcess(process, ready.rstrip("\n"), log)
        finally:
            process.kill()
