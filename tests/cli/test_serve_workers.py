"""`openenv-grpc serve --workers`, as processes."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from openenv_grpc import GenericEnvClient, VectorEnvClient
from openenv_grpc.client.catalog import describe
from openenv_grpc.errors import (
    DrainingError,
    SessionCapacityError,
    SessionNotFoundError,
    UnauthenticatedError,
    UnavailableError,
)
from openenv_grpc.v1 import episode_pb2, episode_pb2_grpc
from tests.cli.conftest import ServeProcess
from tests.cli.test_serve_process import children_of
from tests.engine.process_environments import gone
from tests.exactly_once.proxy import Proxy
from tests.served_process import ServedProcess, start_server

ENVIRONMENT = """
import os
from openenv_grpc import Action, Environment, Observation, State
from openenv_grpc.tools import tool

class Pid(Observation):
    pid: int
    count: int

class Here(Environment[Action, Pid, State]):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, seed=None, episode_id=None) -> Pid:
        self.count = 0
        return self.seen()

    def step(self, action: Action) -> Pid:
        self.count += 1
        return self.seen()

    def seen(self) -> Pid:
        return Pid(pid=os.getpid(), count=self.count)

    def snapshot(self) -> bytes:
        return str(self.count).encode()

    def restore(self, snapshot: bytes) -> None:
        self.count = int(snapshot)

class Alone(Here):
    SUPPORTS_CONCURRENT_SESSIONS = False
"""

DOORS = ("grpc", "grpc.1", "grpc.2")


@contextmanager
def three_workers(
    serve_process: ServeProcess,
    folder: Path,
    *arguments: str,
    target: str = "here:Here",
    environment: Mapping[str, str] | None = None,
) -> Iterator[ServedProcess]:
    (folder / "here.py").write_text(ENVIRONMENT)
    with serve_process(
        target, "--workers", "3", *arguments, cwd=folder, environment=environment
    ) as served:
        yield served


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedProcess]:
    """A server for tests that leave it as it was, with 4, 4 and 3 slots."""
    folder = tmp_path_factory.mktemp("workers")
    serve = functools.partial(start_server, folder)
    path = str(folder / "server.sock")
    with three_workers(
        serve, folder, "--max-sessions", "11", "--unix", path, "--http-unix", f"{path}.web"
    ) as served:
        yield served


def url_of(served: ServedProcess, door: str = "grpc") -> str:
    return f"grpc://{served.address(door)}"


@asynccontextmanager
async def clients(url: str, count: int, **options: Any) -> AsyncIterator[list[GenericEnvClient]]:
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(GenericEnvClient(base_url=url, **options))
            for _ in range(count)
        ]


async def pid_of(client: GenericEnvClient) -> int:
    found: int = (await client.reset()).observation["pid"]
    return found


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "openenv_grpc.cli", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


async def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(command, *arguments)


async def listens(url: str) -> None:
    """Waits until a worker that is started again can be asked."""
    while True:
        with suppress(UnavailableError):
            await describe(url)
            return
        await asyncio.sleep(0.05)


def inherited(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


def metrics(address: str) -> str:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=20) as response:
        told: str = response.read().decode()
    return told


# Where sessions go


async def test_ready_and_the_catalog_list_every_worker_the_first_as_that_of_a_server_alone(
    shared: ServedProcess,
) -> None:
    address = r"127\.0\.0\.1:\d+"
    assert re.fullmatch(
        rf"READY grpc={address} http={address} unix=(\S+) http_unix=(\S+) "
        rf"grpc.1={address} http.1={address} unix.1=\1.1 http_unix.1=\2.1 "
        rf"grpc.2={address} http.2={address} unix.2=\1.2 http_unix.2=\2.2",
        shared.ready,
    )
    for door in DOORS:
        [described] = await describe(url_of(shared, door))
        assert described.workers == [url_of(shared, each) for each in DOORS]
        assert described.session_limit == (3 if door == "grpc.2" else 4)
    shown = await run("info", url_of(shared))
    assert url_of(shared, "grpc.2") in shown.stdout


@pytest.mark.parametrize("scheme", ["grpc", "http"])
async def test_a_clients_sessions_are_spread_evenly(shared: ServedProcess, scheme: str) -> None:
    url = f"{scheme}://{shared.address(scheme)}"
    async with clients(url, 9) as opened:
        found = Counter([await pid_of(client) for client in opened])
        assert set(found.values()) == {3}
        assert set(found) == set(children_of(shared.process.pid))

        for client in opened[:4]:
            await client.close()
        async with clients(url, 4) as again:
            found = Counter([await pid_of(client) for client in (*opened[4:], *again)])
            assert set(found.values()) == {3}


@pytest.mark.parametrize(("scheme", "door"), [("unix", "unix"), ("http+unix", "http_unix")])
async def test_unix_sockets_have_the_workers_number_for_a_suffix(
    shared: ServedProcess, scheme: str, door: str
) -> None:
    path = shared.address(door)
    assert shared.address(f"{door}.2") == f"{path}.2"
    async with clients(f"{scheme}:{path}", 3) as opened:
        assert len({await pid_of(client) for client in opened}) == 3


async def test_a_session_is_opened_where_a_slot_is_free_before_it_waits_for_one(
    serve_process: ServeProcess, tmp_path: Path
) -> None:
    with three_workers(serve_process, tmp_path, "--max-sessions", "5") as served:
        async with clients(url_of(served), 5, queue_timeout_s=0.0) as opened:
            found = Counter([await pid_of(client) for client in opened])
            assert sorted(found.values()) == [1, 2, 2]
            with pytest.raises(SessionCapacityError):
                await GenericEnvClient(base_url=url_of(served), queue_timeout_s=0.0).connect()
            async with asyncio.timeout(30):
                waiting = asyncio.gather(
                    *(GenericEnvClient(base_url=url_of(served)).connect() for _ in range(2))
                )
                for client in opened:
                    await client.close()
                for client in await waiting:
                    await client.close()


async def test_an_environment_for_one_session_at_a_time_has_one_in_each_worker(
    serve_process: ServeProcess, tmp_path: Path
) -> None:
    with three_workers(serve_process, tmp_path, target="here:Alone") as served:
        async with clients(url_of(served), 3, queue_timeout_s=0.0) as opened:
            assert len({await pid_of(client) for client in opened}) == 3


async def test_a_vector_clients_environments_are_spread_whole_or_not_at_all(
    shared: ServedProcess,
) -> None:
    url = url_of(shared)
    async with VectorEnvClient(url, 8) as first:
        observed, _ = await first.reset()
        assert sorted(Counter(observed["pid"].tolist()).values()) == [2, 3, 3]
        with pytest.raises(SessionCapacityError):
            await VectorEnvClient(url, 4, queue_timeout_s=0.2).connect()
        assert len((await run("sessions", url, "--json")).stdout.splitlines()) == 8
        async with asyncio.timeout(30):
            waiting = asyncio.gather(*(VectorEnvClient(url, 9).connect() for _ in range(1)))
            await first.close()
            [second] = await waiting
            await second.reset()
            await second.close()


async def test_a_fork_goes_on_in_the_worker_that_has_the_snapshot(shared: ServedProcess) -> None:
    async with clients(url_of(shared), 3) as opened:
        for client in opened:
            pid = await pid_of(client)
            await client.step({})
            for fork in await client.group(2):
                seen = (await fork.step({})).observation
                assert (seen["pid"], seen["count"]) == (pid, 2)


async def test_who_asks_the_wrong_worker_for_a_session_is_told_of_the_right_one(
    shared: ServedProcess,
) -> None:
    async with AsyncExitStack() as stack:
        stubs = []
        for door in DOORS:
            channel = grpc.aio.insecure_channel(shared.address(door))
            stubs.append(
                episode_pb2_grpc.EpisodeServiceStub(await stack.enter_async_context(channel))
            )
        opened = await stubs[2].Open(episode_pb2.OpenRequest())
        step = episode_pb2.GetStateRequest(session_id=opened.session_id)
        await stubs[2].Reset(episode_pb2.ResetRequest(session_id=opened.session_id))
        await stubs[2].GetState(step)
        with pytest.raises(grpc.aio.AioRpcError, match="number 2") as refused:
            await stubs[0].GetState(step)
        assert refused.value.code() is grpc.StatusCode.NOT_FOUND
        port = shared.address("grpc.2").rpartition(":")[2]
        details = dict(refused.value.trailing_metadata() or ())
        assert port.encode() in details["grpc-status-details-bin"]
        await stubs[2].Close(episode_pb2.CloseRequest(session_id=opened.session_id))


async def test_an_agent_is_sent_to_its_sessions_worker(shared: ServedProcess) -> None:
    async with clients(url_of(shared), 3) as opened:
        urls = {(await client.agent_access()).url for client in opened}
    assert urls == {f"http://{shared.address(door)}/mcp" for door in ("http", "http.1", "http.2")}


async def test_all_workers_ask_for_the_same_token_and_none_inherits_that_of_the_environment(
    serve_process: ServeProcess, tmp_path: Path
) -> None:
    with three_workers(serve_process, tmp_path, environment={"OPENENV_GRPC_TOKEN": "t"}) as served:
        async with clients(url_of(served), 3, token="t") as opened:
            assert len({await pid_of(client) for client in opened}) == 3
        for door in DOORS:
            with pytest.raises(UnauthenticatedError):
                await GenericEnvClient(base_url=url_of(served, door), token="other").connect()
        for pid in children_of(served.process.pid):
            assert b"OPENENV_GRPC_TOKEN" not in inherited(pid)


# What operators see


async def test_sessions_and_metrics_tell_the_worker(shared: ServedProcess) -> None:
    url = url_of(shared, "grpc.1")
    async with clients(url, 3):
        listed = (await run("sessions", url, "--json")).stdout.splitlines()
        sessions = {each["worker"]: each["session_id"] for each in map(json.loads, listed)}
        assert set(sessions) == {0, 1, 2}
        assert "WORKER" in (await run("sessions", url)).stdout
        told = metrics(shared.address("http.2"))
        assert 'openenv_sessions{worker="2",environment="Here",state="ready"} 1' in told
        assert 'openenv_draining{worker="2"} 0' in told
        closed = await run("sessions", url, "--close", sessions[2])
        assert closed.returncode == 0, closed.stderr


async def test_a_drain_of_one_worker_drains_all(
    serve_process: ServeProcess, tmp_path: Path
) -> None:
    with three_workers(serve_process, tmp_path) as served:
        async with clients(url_of(served), 3) as opened:
            for client in opened:
                await client.reset()
            told = await run("drain", url_of(served, "grpc.1"), "--limit", "60", "--json")
            assert json.loads(told.stdout) == {"draining": True, "sessions": 3}
            for door in DOORS:
                with pytest.raises(DrainingError):
                    await GenericEnvClient(base_url=url_of(served, door)).connect()
            for client in opened:
                await client.step({})
        assert served.process.wait(timeout=30) == 0
    assert "Traceback" not in served.log.read_text()


def test_each_worker_that_is_pinned_has_a_processor_of_its_own_as_far_as_they_go(
    serve_process: ServeProcess, tmp_path: Path
) -> None:
    allowed = sorted(os.sched_getaffinity(0))
    with three_workers(serve_process, tmp_path, "--pin") as served:
        pinned = [os.sched_getaffinity(pid) for pid in children_of(served.process.pid)]
        assert os.sched_getaffinity(served.process.pid) == set(allowed)

    expected = [{allowed[worker % len(allowed)]} for worker in range(3)]
    assert sorted(map(sorted, pinned)) == sorted(map(sorted, expected))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
async def test_a_signal_stops_all_workers_with_status_0(
    serve_process: ServeProcess, tmp_path: Path, number: signal.Signals
) -> None:
    with three_workers(serve_process, tmp_path) as served:
        workers = children_of(served.process.pid)
        async with clients(url_of(served), 3) as opened:
            for client in opened:
                await client.reset()
            served.process.send_signal(number)
            if number is signal.SIGTERM:
                for client in opened:
                    await client.step({})
                    await client.disconnect()
            await asyncio.to_thread(served.process.wait, timeout=30)
        assert served.process.returncode == 0
        await gone(*workers)
    assert "Traceback" not in served.log.read_text()


@pytest.mark.parametrize("style", ["text", "json"])
async def test_each_line_of_a_workers_log_tells_its_number(
    serve_process: ServeProcess, tmp_path: Path, style: str
) -> None:
    with three_workers(serve_process, tmp_path, "--log-format", style) as served:
        async with clients(url_of(served, "grpc.1"), 3):
            pass
        lines = served.log.read_text().splitlines()
    opened = [line for line in lines if "session opened" in line]
    if style == "json":
        assert {json.loads(line)["worker"] for line in opened} == {0, 1, 2}
    else:
        assert {line.split(" worker ")[1][0] for line in opened} == {"0", "1", "2"}


# Crashes


async def test_a_killed_server_leaves_no_process(
    serve_process: ServeProcess, tmp_path: Path
) -> None:
    with three_workers(serve_process, tmp_path, "--isolation", "process") as served:
        workers = children_of(served.process.pid)
        async with clients(url_of(served), 3, resume_window_s=None) as opened:
            isolated = [await pid_of(client) for client in opened]
            served.process.kill()
            await gone(*workers, *isolated)


async def test_a_killed_workers_sessions_are_lost_the_others_go_on_and_it_is_started_again(
    serve_process: ServeProcess, tmp_path: Path
) -> None:
    with three_workers(serve_process, tmp_path) as served:
        async with clients(url_of(served), 3) as opened, asyncio.timeout(60):
            of_pid = {await pid_of(client): client for client in opened}
            first = min(children_of(served.process.pid))
            os.kill(first, signal.SIGKILL)

            with pytest.raises(SessionNotFoundError) as lost:
                await of_pid[first].step({})
            assert lost.value.session_lost
            for pid, client in of_pid.items():
                if pid != first:
                    seen = (await client.step({})).observation
                    assert (seen["pid"], seen["count"]) == (pid, 1)
            assert await pid_of(of_pid[first]) != first
            await listens(url_of(served))
            assert len(children_of(served.process.pid)) == 3
            async with GenericEnvClient(base_url=url_of(served)) as client:
                assert await pid_of(client) in children_of(served.process.pid)
    assert "worker ended; its sessions are lost worker=0 exit_code=-9" in served.log.read_text()


async def test_sessions_are_opened_elsewhere_while_the_worker_that_was_named_is_away(
    serve_process: ServeProcess, tmp_path: Path
) -> None:
    with three_workers(serve_process, tmp_path) as served:
        async with clients(url_of(served), 3) as opened, asyncio.timeout(60):
            pids = [await pid_of(client) for client in opened]
            stopped = min(children_of(served.process.pid))
            os.kill(stopped, signal.SIGKILL)
            async with clients(url_of(served), 2) as others:
                for client in others:
                    assert await pid_of(client) != stopped
            assert stopped in pids


async def test_a_worker_that_ends_again_and_again_ends_the_server(
    serve_process: ServeProcess, tmp_path: Path
) -> None:
    source = "import os, pathlib\nif pathlib.Path('broken').exists(): os._exit(3)\n" + ENVIRONMENT
    (tmp_path / "fragile.py").write_text(source)
    with serve_process("fragile:Here", "--workers", "2", cwd=tmp_path) as served:
        (tmp_path / "broken").touch()
        workers = children_of(served.process.pid)
        os.kill(workers[0], signal.SIGKILL)
        assert await asyncio.to_thread(served.process.wait, timeout=60) == 1
        await gone(*workers)
    assert re.search(
        r"openenv-grpc: worker \d ended 4 times in a row, at last with exit code 3",
        served.log.read_text(),
    )


async def test_a_session_is_resumed_on_its_own_worker_after_a_cut(shared: ServedProcess) -> None:
    async with AsyncExitStack() as stack:
        proxies = []
        for door in DOORS:
            port = int(shared.address(door).rpartition(":")[2])
            proxies.append(proxy := Proxy(port, random.Random(0)))
            relay = await asyncio.start_server(proxy.carry, "127.0.0.2", port)
            stack.callback(relay.close)
        url = url_of(shared).replace("127.0.0.1", "127.0.0.2")
        async with clients(url, 3) as opened, asyncio.timeout(60):
            pids = [await pid_of(client) for client in opened]
            assert len(set(pids)) == 3
            for count in range(1, 4):
                for proxy in proxies:
                    assert proxy.connected
                    proxy.cut()
                for client, pid in zip(opened, pids, strict=True):
                    seen = (await client.step({})).observation
                    assert (seen["pid"], seen["count"]) == (pid, count)


# What does not go together


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--workers", "2", "--max-sessions", "1"), "1 sessions are too few for 2 workers"),
        (("--workers", "2", "--public-url", "https://h"), "--public-url has {worker}"),
        (("--workers", "3", "--grpc-port", "8002"), "both would have 8002"),
        (("--workers", "2", "--http-port", "65535"), "choose a lower --http-port"),
        (("--workers", "2", "--host", "0.0.0.0"), "--insecure"),
    ],
    ids=["sessions", "public URL", "ports that overlap", "ports past the last", "token"],
)
def test_what_makes_no_sense_is_told_once_with_status_2(
    arguments: tuple[str, ...], message: str
) -> None:
    ended = command("serve", "echo_env", *arguments)

    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr.count(message) == 1, ended.stderr


def test_a_port_that_is_taken_ends_all_with_status_2(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = command(
            "serve", "echo_env", "--workers", "2", "--no-http", "--grpc-port", str(port)
        )

    assert ended.returncode == 2
    assert f"cannot listen on 127.0.0.1:{port}" in ended.stderr
