"""A served echo environment, and the examples built against it with fresh stubs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
SEARCH_PATH = os.pathsep.join([str(BIN), os.environ.get("PATH", "")])

Run = Callable[..., str]
Require = Callable[[str, str], None]
Example = Callable[[str], Path]
TourCheck = Callable[..., None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Where the server of these tests listens."""

    grpc: str
    http: str


@pytest.fixture(scope="session")
def served() -> Iterator[Served]:
    command = [BIN / "openenv-grpc", "serve", "echo_env", "--grpc-port", "0", "--http-port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            ready = re.fullmatch(r"READY grpc=(\S+) http=(\S+)\n", server.stdout.readline())
            assert ready is not None
            yield Served(grpc=ready[1], http=ready[2])
        finally:
            server.terminate()
    assert server.returncode == 0


@pytest.fixture(scope="session")
def require() -> Require:
    """Skips a test without a program that it needs, or in CI fails it."""

    def check(program: str, install: str) -> None:
        if shutil.which(program, path=SEARCH_PATH) is None:
            message = f"{program} is not installed: {install}"
            if os.environ.get("CI"):
                pytest.fail(message)
            pytest.skip(message)

    return check


@pytest.fixture(scope="session")
def run() -> Run:
    """Runs a program that must end well, and returns what it printed."""

    def call(*command: str | Path, cwd: Path = ROOT, programs: Path = BIN) -> str:
        path = f"{programs}{os.pathsep}{SEARCH_PATH}"
        ended = subprocess.run(
            list(map(str, command)),
            cwd=cwd,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert ended.returncode == 0, f"{command}\n{ended.stdout}\n{ended.stderr}"
        return ended.stdout

    return call


@pytest.fixture(scope="session")
def example(tmp_path_factory: pytest.TempPathFactory) -> Example:
    """Copies an example as a user would, without what is generated or installed."""

    def copy(name: str) -> Path:
        generated = shutil.ignore_patterns("node_modules", "dist", "generated", "openenv", "stubs")
        target = tmp_path_factory.mktemp(name) / name
        return Path(shutil.copytree(ROOT / "examples" / name, target, ignore=generated))

    return copy


@pytest.fixture(scope="session")
def check_tour() -> TourCheck:
    """Compares what a tour printed with what all tours print, but for the names of constants."""

    def check(printed: str, *, invalid_action: str, none: str, lives: str, refused: str) -> None:
        lines = printed.splitlines()
        assert lines[0] == "server: openenv-grpc echo_env"
        assert re.fullmatch(r'reset: \{.*"Echo environment ready!".*\}', lines[1])
        assert re.fullmatch(r'step: \{.*"echoed_message":"hi".*\} 0\.2\d*', lines[2])
        assert lines[3] == "state: step count 1"
        assert lines[4] == f"refused: {invalid_action} {none} {lives}"
        for line, name, text in zip(
            lines[5:8], ("1 6", "1 7", "2 3"), ("one", "two", "three"), strict=True
        ):
            assert re.fullmatch(rf'batch: {name} \{{.*"echoed_message":"{text}".*\}}', line)
        assert lines[8:] == ["closed: steps 3", f"unary refused: {refused}"]

    return check
