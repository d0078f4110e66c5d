"""Clients and servers of one machine: large messages go through memory, nothing else changes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest

from openenv_grpc import VectorEnvClient, shared_memory
from openenv_grpc.client import GenericEnvClient
from openenv_grpc.errors import (
    InvalidRequestError,
    NotSupportedError,
    OpenEnvError,
    ProtocolViolationError,
    UnavailableError,
)
from openenv_grpc.stream import SHARED_BYTES
from openenv_grpc.v1 import session_pb2
from tests.client.conftest import serve_environments
from tests.client.peers import ConnectPeer
from tests.framed import FRAMES, frame
from tests.served_process import ServedProcess, start_server

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is shared on Linux alone")

DOORS = ["grpc", "unix", "ws"]
LARGE = 300_000


class Counted:
    """How many operations and outcomes of this process went through memory."""

    def __init__(self) -> None:
        self.put = 0


@pytest.fixture
def through_memory(monkeypatch: pytest.MonkeyPatch) -> Counted:
    counted = Counted()
    put = shared_memory.Segment.put

    def counting(segment: shared_memory.Segment, content: bytes) -> shared_memory.Block | None:
        block = put(segment, content)
        counted.put += block is not None
        return block

    monkeypatch.setattr(shared_memory.Segment, "put", counting)
    return counted


@asynccontextmanager
async def connected(url: str, *, shared: bool | None = None) -> AsyncIterator[GenericEnvClient]:
    async with GenericEnvClient(url, shared_memory=shared) as client:
        await client.reset()
        yield client


async def check(client: GenericEnvClient, size: int, *, first: int = 0) -> None:
    sent = frame(first, size)
    seen = (await client.step({"size": size, "first": first, "sent": sent})).observation
    assert np.array_equal(seen["frame"], frame(first, size))
    assert seen["received"] == sent.sum(dtype=np.int64)


@pytest.mark.parametrize("door", DOORS)
async def test_values_are_the_same_through_memory(
    tmp_path: Path, through_memory: Counted, door: str
) -> None:
    async with serve_environments(FRAMES, path=tmp_path) as urls, connected(urls[door]) as client:
        assert client.shares_memory
        for size in (SHARED_BYTES, 100_001, 2**20, 5 * 2**20):
            before = through_memory.put
            await check(client, size, first=size)
            assert through_memory.put == before + 2
        seen = (await client.reset(seed=LARGE)).observation
        assert np.array_equal(seen["frame"], frame(0, LARGE))


@pytest.mark.parametrize("door", DOORS)
async def test_small_messages_go_over_the_connection(
    tmp_path: Path, through_memory: Counted, door: str
) -> None:
    async with serve_environments(FRAMES, path=tmp_path) as urls, connected(urls[door]) as client:
        await check(client, SHARED_BYTES - 1000)
        assert through_memory.put == 0


@pytest.mark.parametrize("door", DOORS)
async def test_another_process_shares_memory_too(served: ServedProcess, door: str) -> None:
    async with connected(url_of(served, door)) as client:
        assert client.shares_memory
        for number in range(20):
            await check(client, LARGE, first=number)
    async with connected(url_of(served, door), shared=False) as client:
        assert not client.shares_memory
        await check(client, LARGE)


async def test_many_sessions_fill_the_memory_and_all_are_answered(
    tmp_path: Path, through_memory: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_memory.offer, "__defaults__", (2**20,))
    async with serve_environments(FRAMES, path=tmp_path) as urls:
        clients = [GenericEnvClient(urls["grpc"]) for _ in range(12)]
        try:
            for turn in range(4):
                await asyncio.gather(
                    *(
                        check(client, 150_000, first=10 * turn + number)
                        for number, client in enumerate(clients)
                    )
                )
        finally:
            for client in clients:
                await client.close()
    assert 2 < through_memory.put < 2 * 4 * 12


async def test_places_are_used_again(tmp_path: Path, through_memory: Counted) -> None:
    async with serve_environments(FRAMES, path=tmp_path) as urls, connected(urls["grpc"]) as client:
        size = 20 * 2**20  # a fifth of what each direction has
        for number in range(10):
            await client.step({"size": size, "first": number})
        assert through_memory.put == 10


async def test_a_vector_client_shares_memory(tmp_path: Path, through_memory: Counted) -> None:
    async with (
        serve_environments(FRAMES, path=tmp_path) as urls,
        VectorEnvClient(urls["grpc"], num_envs=3) as envs,
    ):
        await envs.reset()
        assert envs.shares_memory
        actions = [{"size": LARGE, "first": number} for number in range(3)]
        observations, *_ = await envs.step(actions)
        for number in range(3):
            assert np.array_equal(observations["frame"][number], frame(number, LARGE))
        assert through_memory.put == 3


async def test_answers_that_nobody_waits_for_do_not_fill_the_memory(
    tmp_path: Path, through_memory: Counted
) -> None:
    async with serve_environments(FRAMES, path=tmp_path) as urls, connected(urls["grpc"]) as client:
        for number in range(8):
            given_up = asyncio.create_task(client.step({"size": 20 * 2**20, "first": number}))
            await asyncio.sleep(0)
            given_up.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await given_up
            await client.state()
        put = through_memory.put
        await client.step({"size": 20 * 2**20})
        assert through_memory.put == put + 1


async def test_environments_in_processes_of_their_own_share_memory_with_clients(
    tmp_path: Path,
) -> None:
    with serving(tmp_path, "--isolation", "process") as served:
        async with connected(url_of(served, "grpc")) as client:
            assert client.shares_memory
            await check(client, LARGE)


@pytest.mark.parametrize("said", ["0", "1"])
async def test_the_variable_says_whether_memory_is_shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    monkeypatch.setenv("OPENENV_GRPC_SHARED_MEMORY", said)
    async with serve_environments(FRAMES, path=tmp_path) as urls:
        async with connected(urls["grpc"]) as client:
            assert client.shares_memory is (said == "1")
        async with connected(urls["grpc"], shared=said == "0") as client:
            assert client.shares_memory is (said == "0")


def test_a_variable_that_says_neither_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENENV_GRPC_SHARED_MEMORY", "maybe")
    with pytest.raises(InvalidRequestError, match="OPENENV_GRPC_SHARED_MEMORY is 0 or 1"):
        GenericEnvClient("grpc://127.0.0.1:1")


async def test_a_server_can_share_none(tmp_path: Path) -> None:
    with serving(tmp_path, "--no-shared-memory") as served:
        async with connected(url_of(served, "grpc"), shared=True) as client:
            assert not client.shares_memory
            await check(client, LARGE)


async def test_where_no_memory_can_be_made_all_goes_over_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused() -> None:
        raise NotSupportedError("no memory here")

    monkeypatch.setattr(shared_memory, "offer", refused)
    async with (
        serve_environments(FRAMES, path=tmp_path) as urls,
        connected(urls["grpc"], shared=True) as client,
    ):
        assert not client.shares_memory
        await check(client, LARGE)


async def test_a_server_that_cannot_open_it_is_answered_over_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one in another container cannot."""
    monkeypatch.setattr(os, "getpid", lambda: 2**30)
    segment = shared_memory.offer()
    monkeypatch.undo()
    monkeypatch.setattr(shared_memory, "offer", lambda: segment)
    async with (
        serve_environments(FRAMES, path=tmp_path) as urls,
        connected(urls["grpc"]) as client,
    ):
        assert not client.shares_memory
        await check(client, LARGE)


async def test_only_a_server_on_this_machine_is_offered_memory_unless_asked() -> None:
    peer = ConnectPeer()
    async with peer.serve() as url:
        port = url.rpartition(":")[2]
        for host, asked, offered in (
            ("127.0.0.1", None, True),
            ("127.0.0.1", False, False),
            ("0.0.0.0", None, False),
            ("0.0.0.0", True, True),
        ):
            async with GenericEnvClient(f"ws://{host}:{port}", shared_memory=asked):
                assert peer.messages[-2].client.HasField("shared_memory") is offered, host


class LyingPeer(ConnectPeer):
    """Answers steps with a reference to what is not there."""

    def __init__(self, block: session_pb2.SharedBlock, *, shares: bool) -> None:
        super().__init__()
        self.block = block
        self.shares = shares

    def greet(self, hello: session_pb2.ServerHello) -> None:
        hello.shares_memory = self.shares

    def outcome(self, operation: session_pb2.Operation) -> session_pb2.Outcome:
        if operation.HasField("step"):
            return session_pb2.Outcome(session=operation.session, shared_block=self.block)
        return super().outcome(operation)


@pytest.mark.parametrize(
    ("block", "shares"),
    [
        (session_pb2.SharedBlock(offset=4096, size_bytes=100, generation=1), True),
        (session_pb2.SharedBlock(offset=64 * 2**20, size_bytes=100, generation=1), True),
        (session_pb2.SharedBlock(offset=64 * 2**20, size_bytes=2**40, generation=1), True),
        (session_pb2.SharedBlock(), True),
        (session_pb2.SharedBlock(offset=4096, size_bytes=100, generation=1), False),
    ],
    ids=["its_own_half", "not_put", "huge", "empty", "not_shared"],
)
async def test_a_reference_to_what_is_not_there_is_one_error(
    block: session_pb2.SharedBlock, shares: bool
) -> None:
    peer = LyingPeer(block, shares=shares)
    async with peer.serve() as url, GenericEnvClient(url, message_timeout_s=5) as client:
        with pytest.raises(ProtocolViolationError, match="shared memory") as raised:
            await client.step({})
        assert raised.value.session_lost


# What is left when something dies


@contextlib.contextmanager
def serving(tmp_path: Path, *options: str) -> Iterator[ServedProcess]:
    with start_server(
        tmp_path, "tests.framed:Frames", "--unix", str(tmp_path / "s.sock"), *options
    ) as process:
        yield process


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedProcess]:
    with serving(tmp_path) as process:
        yield process


def url_of(served: ServedProcess, door: str) -> str:
    if door == "unix":
        return f"unix:{served.address('unix')}"
    return f"{door}://{served.address('http' if door == 'ws' else door)}"


def shared_files() -> set[str]:
    return set(os.listdir("/dev/shm"))


def memories(process_id: int | str = "self") -> int:
    """How many descriptors of shared memory a process has."""
    folder = f"/proc/{process_id}/fd"
    links = []
    for name in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError):
            links.append(os.readlink(f"{folder}/{name}"))
    return sum("openenv-grpc" in link for link in links)


def mappings(process_id: int | str = "self") -> int:
    maps = Path(f"/proc/{process_id}/maps").read_text(encoding="utf-8")
    return maps.count("/memfd:openenv-grpc")


async def until_none(process_id: int | str = "self") -> None:
    async with asyncio.timeout(30):
        while memories(process_id) or mappings(process_id):
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("door", DOORS)
async def test_a_killed_server_leaves_no_memory(served: ServedProcess, door: str) -> None:
    before = shared_files()
    client = GenericEnvClient(url_of(served, door), resume_window_s=None)
    await client.reset()
    await check(client, LARGE)
    assert memories() == mappings() == 1
    served.process.send_signal(signal.SIGKILL)
    with pytest.raises(OpenEnvError):
        while True:
            await client.step({"size": LARGE})
    await client.close()
    await until_none()
    assert shared_files() <= before


KILLED = """
import asyncio, sys
from openenv_grpc.client import GenericEnvClient

async def run() -> None:
    client = GenericEnvClient(sys.argv[1])
    await client.reset()
    print(client.shares_memory, flush=True)
    while True:
        await client.step({"size": 300_000})

asyncio.run(run())
"""


@pytest.mark.parametrize("door", DOORS)
async def test_killed_clients_leave_no_memory(served: ServedProcess, door: str) -> None:
    before = shared_files()
    for _ in range(2):
        client = await asyncio.create_subprocess_exec(
            sys.executable, "-c", KILLED, url_of(served, door), stdout=subprocess.PIPE
        )
        assert client.stdout is not None
        assert await client.stdout.readline() == b"True\n"
        assert mappings(served.process.pid) == 1
        client.kill()
        await client.wait()
        await until_none(served.process.pid)
    assert shared_files() <= before
    async with connected(url_of(served, door)) as another:
        await check(another, LARGE)


async def test_connections_that_come_and_go_leave_no_descriptors(tmp_path: Path) -> None:
    async with serve_environments(FRAMES, path=tmp_path) as urls:
        for door in DOORS:
            for _ in range(3):
                async with connected(urls[door]) as client:
                    await check(client, LARGE)
            await until_none()
        with pytest.raises(UnavailableError):
            await GenericEnvClient("grpc://127.0.0.1:1", connect_timeout_s=0.2).connect()
        await until_none()


async def test_a_connection_that_is_given_up_at_once_leaves_no_descriptors(tmp_path: Path) -> None:
    async with serve_environments(FRAMES, path=tmp_path) as urls:
        for turns in range(12):
            connecting = asyncio.create_task(GenericEnvClient(urls["ws"]).connect())
            for _ in range(turns):
                await asyncio.sleep(0)
            connecting.cancel()
            await asyncio.wait({connecting})
        await until_none()


async def test_the_end_of_the_server_closes_the_memory(tmp_path: Path) -> None:
    async with serve_environments(FRAMES, path=tmp_path) as urls:
        client = GenericEnvClient(urls["grpc"], resume_window_s=None)
        await client.reset()
        assert mappings() == 2
    await client.close()
    await until_none()
