"""What npm has of MCP, installed once, and a server for it to talk to."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.served_process import ServedProcess, start_server

HERE = Path(__file__).parent

Node = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Installs what `package-lock.json` lists; skips without npm, or in CI fails."""
    if shutil.which("npm") is None:
        message = "npm is not installed: Node.js 20 or newer"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    folder = tmp_path_factory.mktemp("npm")
    for name in ("package.json", "package-lock.json", "play.js"):
        shutil.copy(HERE / name, folder)
    ended = subprocess.run(
        ["npm", "ci", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return folder


@pytest.fixture(scope="session")
def node(installed: Path) -> Node:
    """Runs a script on Node.js: the packaged one, which the tool needs, or the system's."""
    packaged = installed / "node_modules" / "node" / "bin" / "node"
    program = str(packaged) if packaged.exists() else "node"

    def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [program, str(installed / script), *arguments],
            cwd=installed,
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )

    return run


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedProcess]:
    """Serves the fixtures of the conformance tool, and a countdown."""
    targets = ("tests.conformance.environment:Fixtures", "tests.environments:Countdown")
    with start_server(
        tmp_path_factory.mktemp("server"),
        *targets,
        "--no-grpc",
        "--drain-timeout",
        "0",
        ports=("--http-port", "0"),
    ) as served:
        yield served
