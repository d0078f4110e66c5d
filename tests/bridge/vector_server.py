"""The process that serves the vectors' environments: started, asked whether it is idle, stopped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CHECKOUT = HERE.parent.parent


def reference_python() -> str:
    """Returns the interpreter that has the reference installed; skips the test if there is none."""
    named = os.environ.get("OPENENV_REFERENCE_PYTHON")
    python = Path(named) if named else CHECKOUT / ".venv-reference" / "bin" / "python"
    if not python.exists():
        pytest.skip("there is no environment with the reference (make .venv-reference)")
    return str(python)


class VectorServer:
    """One such process."""

    def __init__(self, process: subprocess.Popen[str], ports: dict[str, int]) -> None:
        self._process = process
        self._ports = ports

    def url(self, profile: str) -> str:
        """Returns where a profile is served."""
        return f"http://127.0.0.1:{self._ports[profile]}"

    def wait_idle(self) -> None:
        """Waits until no session is left."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "idle\n"


@contextmanager
def vector_server(module: str, python: str = sys.executable) -> Iterator[VectorServer]:
    """Serves the environments of a module while the block lasts."""
    paths = [str(CHECKOUT / "src"), str(CHECKOUT / "bridge")]
    with subprocess.Popen(
        [python, str(HERE / "serve_vectors.py"), module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        line = process.stdout.readline()
        assert line, "the server did not start"
        yield VectorServer(process, json.loads(line))
        process.stdin.close()
        assert process.wait(timeout=20) == 0
