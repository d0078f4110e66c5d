"""Clients that are used where they were not made: other loops, threads, processes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from openenv_grpc.client import GenericEnvClient
from openenv_grpc.errors import InvalidRequestError
from tests.client.test_sync_client import serving_elsewhere

pytestmark = pytest.mark.parametrize("door", ["grpc", "ws"])


def test_an_async_client_in_a_second_run_says_so_and_works_after_close(
    tmp_path: Path, door: str
) -> None:
    with serving_elsewhere(tmp_path) as urls:
        client = GenericEnvClient(urls[door])

        async def step() -> int:
            turn: int = (await client.step({})).observation["turn"]
            return turn

        async def step_and_close() -> int:
            try:
                return await step()
            finally:
                await client.close()

        assert asyncio.run(step()) == 1
        for call in (client.step({}), client.reset(), client.state(), client.close()):
            with pytest.raises(InvalidRequestError, match="another event loop"):
                asyncio.run(call)
        other = GenericEnvClient(urls[door])
        for _ in range(2):
            client = other
            assert asyncio.run(step_and_close()) == 1


def test_threads_may_share_a_blocking_client(tmp_path: Path, door: str) -> None:
    with serving_elsewhere(tmp_path) as urls, GenericEnvClient(urls[door]).sync() as client:
        client.reset()
        together = threading.Barrier(2)

        def steps(name: str) -> list[tuple[str, int]]:
            together.wait(10)
            observations = [
                client.step({"text": f"{name} {number}"}).observation for number in range(20)
            ]
            return [(each["text"], each["turn"]) for each in observations]

        with ThreadPoolExecutor(2) as threads:
            both = [*threads.map(steps, ("a", "b"))]
        for name, told in zip(("a", "b"), both, strict=True):
            assert [text for text, _ in told] == [f"{name} {number}" for number in range(20)]
        assert sorted(turn for told in both for _, turn in told) == list(range(1, 41))


AFTER_A_FORK = """
import multiprocessing, sys
from openenv_grpc.client import GenericEnvClient
from openenv_grpc.errors import OpenEnvError
url, kind = sys.argv[1:]
used = GenericEnvClient(url).sync()
print(used.reset().observation["turn"], flush=True)

def use() -> None:
    client = used if kind == "used" else GenericEnvClient(url).sync()
    try:
        print("child", client.step({}).observation["turn"], flush=True)
        client.close()
    except OpenEnvError as error:
        print("child", error.message, flush=True)

child = multiprocessing.get_context("fork").Process(target=use)
child.start()
child.join()
print("parent", used.step({}).observation["turn"], child.exitcode, flush=True)
used.close()
"""


@pytest.mark.parametrize("kind", ["used", "fresh"])
def test_a_forked_child_works_or_says_what_to_do(tmp_path: Path, door: str, kind: str) -> None:
    with serving_elsewhere(tmp_path) as urls:
        ended = subprocess.run(
            [sys.executable, "-c", AFTER_A_FORK, urls[door], kind],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert ended.returncode == 0, ended.stderr
    first, child, parent = ended.stdout.splitlines()
    assert (first, parent) == ("0", "parent 1 0"), ended.stderr
    expected = {
        ("used", "grpc"): "make a client in the child",
        ("used", "ws"): "make a client in the child",
        ("fresh", "grpc"): "spawn",
        ("fresh", "ws"): "child 1",
    }
    assert expected[kind, door] in child
