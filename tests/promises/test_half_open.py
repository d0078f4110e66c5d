"""A client that is there and does not answer loses its slot to one that waits for it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.promises.environments import DIARY
from tests.served_process import CHECKOUT, start_server

SERVED = (
    "tests.promises.environments:Witness",
    "--max-sessions=1", "--ping-interval=0.5", "--ping-timeout=2", "--detached-grace=0.5",
)  # fmt: skip

CLIENT = """
import sys
from openenv_grpc.client import GenericEnvClient
from openenv_grpc.errors import OpenEnvError
client = GenericEnvClient(sys.argv[1], resume_window_s=float(sys.argv[2]), queue_timeout_s=60)
with client.sync() as client:
    print(client.reset().observation["instance"], flush=True)
    sys.stdin.readline()
    try:
        print(client.step({"token": "still here"}).observation["token"], flush=True)
    except OpenEnvError as error:
        print("lost" if error.session_lost else error, flush=True)
"""

Client = subprocess.Popen[str]


@dataclass(frozen=True)
class Ground:
    """Where server and clients run, and how a client falls silent there."""

    python: str | Path
    address: str
    """By which the client that falls silent reaches the server."""
    options: tuple[str, ...]
    silence: Callable[[Client], None]


def need(program: str) -> None:
    if shutil.which(program) is None:
        missing = f"{program} is not installed: apt-get install iproute2 iptables"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)


@pytest.fixture
def namespace() -> Iterator[str]:
    """A network of its own, in which packets can be dropped."""
    if os.geteuid() != 0:
        pytest.skip("a network namespace needs root: run this test as root")
    for program in ("ip", "iptables"):
        need(program)
    name = f"openenv-{uuid.uuid4().hex[:8]}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"this machine makes no network namespaces: {made.stderr.strip()}")
    try:
        subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
        yield name
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=True)


@pytest.fixture(params=["stopped", "dropped"])
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Ground:
    if request.param == "stopped":
        return Ground(
            sys.executable, "127.0.0.1", (), lambda client: client.send_signal(signal.SIGSTOP)
        )
    name: str = request.getfixturevalue("namespace")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec ip netns exec {name} {sys.executable} "$@"\n')
    python.chmod(0o755)

    def drop(client: Client) -> None:
        for end in ("--source", "--destination"):
            rule = ["iptables", "--append", "INPUT", end, "127.0.0.2", "--jump", "DROP"]
            subprocess.run(["ip", "netns", "exec", name, *rule], check=True)

    return Ground(python, "127.0.0.2", ("--host=0.0.0.0", "--insecure"), drop)


@contextmanager
def client_process(ground: Ground, url: str, window_s: float) -> Iterator[Client]:
    with subprocess.Popen(
        [ground.python, "-c", CLIENT, url, str(window_s)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=CHECKOUT,
        text=True,
    ) as client:
        try:
            yield client
        finally:
            client.kill()


def said(client: Client) -> str:
    assert client.stdout is not None
    return client.stdout.readline().rstrip("\n")


def ask(client: Client) -> str:
    assert client.stdin is not None
    client.stdin.write("\n")
    client.stdin.flush()
    return said(client)


@pytest.mark.parametrize("window_s", [60, 0], ids=["window", "no window"])
@pytest.mark.parametrize("door", ["grpc", "ws"])
def test_who_falls_silent_loses_its_slot_to_who_waits(
    ground: Ground, tmp_path: Path, door: str, window_s: float
) -> None:
    diary = tmp_path / "diary"
    with start_server(
        tmp_path, *SERVED, *ground.options, python=ground.python, environment={DIARY: str(diary)}
    ) as served:
        port = served.address("grpc" if door == "grpc" else "http").rpartition(":")[2]
        url = f"{door}://{ground.address}:{port}"
        with client_process(ground, url, window_s) as first:
            assert said(first) == "1"
            ground.silence(first)
            with client_process(ground, f"{door}://127.0.0.1:{port}", 60) as second:
                assert said(second) == "2"  # within its 60 s
                assert diary.read_text() == "closed 1\n"
                assert ask(second) == "still here"
                assert second.wait(30) == 0
            first.send_signal(signal.SIGCONT)
            if ground.address == "127.0.0.1":
                assert ask(first) == "lost"
        served.process.terminate()
        served.process.wait(30)
    assert diary.read_text().count("closed 1\n") == 1
