"""`openenv-grpc serve`, as a process."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from openenv_grpc import GenericEnvClient, MCPToolClient
from openenv_grpc.errors import (
    DeadlineExceededError,
    DrainingError,
    EnvironmentFailedError,
    PermissionDeniedError,
    SessionCapacityError,
    SnapshotNotFoundError,
    UnauthenticatedError,
)
from tests.certificates import make_certificates
from tests.cli.conftest import ServeProcess

SLOW_CLOSE = """
import threading
from openenv_grpc import Action, Environment, Observation

class Stubborn(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, seed=None, episode_id=None) -> Observation:
        return Observation()

    def step(self, action: Action) -> Observation:
        raise ValueError("the secret is 42")

    def close(self):
        threading.Event().wait()
"""

IGNORES_CANCELLATION = """
import asyncio
from openenv_grpc import Action, Environment, Observation

class Deaf(Environment):
    async def reset_async(self, seed=None, episode_id=None, **kwargs) -> Observation:
        return Observation()

    async def step_async(self, action: Action, **kwargs) -> Observation:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                pass

    def reset(self, seed=None, episode_id=None) -> Observation: ...

    def step(self, action: Action) -> Observation: ...
"""

COUNTDOWN = """
from openenv_grpc import Action, Environment, Observation

class Countdown(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, seed=None, episode_id=None) -> Observation:
        self.left = 20
        return Observation()

    def step(self, action: Action) -> Observation:
        self.left -= 1
        return Observation(done=self.left == 0)
"""


def serve(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs a `serve` that is expected to end by itself."""
    return subprocess.run(
        [sys.executable, "-m", "openenv_grpc.cli", "serve", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_ready_names_the_doors_on_one_line_and_nothing_else_is_printed(
    serve_process: ServeProcess,
) -> None:
    with serve_process("echo_env") as served:
        assert re.fullmatch(r"READY grpc=127\.0\.0\.1:\d+ http=127\.0\.0\.1:\d+", served.ready)
        address = served.address("http")
        with urllib.request.urlopen(f"http://{address}/health", timeout=10) as response:
            assert response.status == 200
        served.process.send_signal(signal.SIGTERM)
        assert served.process.stdout is not None
        assert served.process.stdout.read() == ""


@pytest.mark.parametrize(
    ("ports", "pattern"),
    [
        (("--no-http", "--grpc-port", "0"), r"READY grpc=127\.0\.0\.1:\d+"),
        (("--no-grpc", "--http-port", "0"), r"READY http=127\.0\.0\.1:\d+"),
    ],
    ids=["gRPC alone", "HTTP alone"],
)
def test_ready_names_only_the_doors_that_there_are(
    serve_process: ServeProcess, ports: tuple[str, ...], pattern: str
) -> None:
    with serve_process("echo_env", ports=ports) as served:
        assert re.fullmatch(pattern, served.ready)


async def test_a_unix_socket_is_served(serve_process: ServeProcess, tmp_path: Path) -> None:
    path = tmp_path / "server.sock"

    with serve_process("echo_env", ports=("--no-http", "--no-grpc", "--unix", str(path))) as served:
        assert served.ready == f"READY unix={path}"
        async with GenericEnvClient(base_url=f"unix:{path}") as client:
            await client.reset()


async def test_http_is_served_on_a_unix_socket(serve_process: ServeProcess, tmp_path: Path) -> None:
    path = tmp_path / "http.sock"
    ports = ("--no-http", "--no-grpc", "--http-unix", str(path))

    with serve_process("echo_env", ports=ports) as served:
        assert served.ready == f"READY http_unix={path}"
        async with GenericEnvClient(base_url=f"http+unix:{path}") as client:
            await client.reset()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
async def test_a_signal_stops_it_with_status_0(
    serve_process: ServeProcess, number: signal.Signals
) -> None:
    with serve_process("echo_env") as served:
        client = GenericEnvClient(base_url=f"grpc://{served.address('grpc')}")
        await client.reset()
        if number is signal.SIGTERM:
            await client.disconnect()
        served.process.send_signal(number)
        assert served.process.wait(timeout=20) == 0
        await client.close()

    assert "Traceback" not in served.log.read_text()


async def test_sigterm_breaks_no_episode_and_starts_none(
    serve_process: ServeProcess, tmp_path: Path
) -> None:
    (tmp_path / "countdown.py").write_text(COUNTDOWN)

    with serve_process("countdown:Countdown", cwd=tmp_path) as served:
        url = f"grpc://{served.address('grpc')}"
        clients = [GenericEnvClient(base_url=url) for _ in range(32)]
        late = GenericEnvClient(base_url=url)
        async with AsyncExitStack() as stack:
            await asyncio.gather(*map(stack.enter_async_context, clients))
            await asyncio.gather(*(client.reset() for client in clients))
            async with grpc.aio.insecure_channel(served.address("grpc")) as channel:
                watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
                assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
                served.process.send_signal(signal.SIGTERM)
                async with asyncio.timeout(5):
                    told = await watch.read()
                assert told.status == health_pb2.HealthCheckResponse.NOT_SERVING
                watch.cancel()
            with pytest.raises(urllib.error.HTTPError, match="503"):
                await asyncio.to_thread(
                    urllib.request.urlopen, f"http://{served.address('http')}/health", timeout=10
                )

            async def play(client: GenericEnvClient) -> bool:
                return [(await client.step({})).done for _ in range(20)][-1]

            playing = asyncio.gather(*map(play, clients))
            with pytest.raises(DrainingError):
                await late.connect()
            assert all(await playing)
            with pytest.raises(DrainingError):
                await clients[0].reset()
            assert served.process.wait(timeout=10) == 0
        await late.close()


async def test_a_second_signal_waits_for_no_episode(serve_process: ServeProcess) -> None:
    with serve_process("echo_env") as served:
        client = GenericEnvClient(base_url=f"grpc://{served.address('grpc')}")
        await client.reset()
        served.process.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            served.process.wait(timeout=1.5)
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(timeout=10) == 0
        await client.close()


async def test_a_drain_takes_as_long_as_it_may(serve_process: ServeProcess) -> None:
    with serve_process("echo_env", "--drain-timeout", "0.2") as served:
        client = GenericEnvClient(base_url=f"grpc://{served.address('grpc')}")
        await client.reset()
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(timeout=10) == 0
        await client.close()
    assert "drain cut short sessions=1 limit_s=0.2" in served.log.read_text()


async def test_a_second_signal_does_not_wait_for_an_environment_that_will_not_close(
    serve_process: ServeProcess, tmp_path: Path
) -> None:
    (tmp_path / "stubborn.py").write_text(SLOW_CLOSE)

    with serve_process("stubborn:Stubborn", environment={"PYTHONPATH": str(tmp_path)}) as served:
        client = GenericEnvClient(base_url=f"grpc://{served.address('grpc')}")
        await client.reset()
        served.process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            served.process.wait(timeout=1)
        served.process.send_signal(signal.SIGINT)
        assert served.process.wait(timeout=5) == -signal.SIGINT
        await client.close()


async def test_an_environment_that_ignores_cancellation_does_not_keep_the_process(
    serve_process: ServeProcess, tmp_path: Path
) -> None:
    (tmp_path / "deaf.py").write_text(IGNORES_CANCELLATION)

    with serve_process(
        "deaf:Deaf", "--drain-timeout", "0", environment={"PYTHONPATH": str(tmp_path)}
    ) as served:
        client = GenericEnvClient(
            base_url=f"grpc://{served.address('grpc')}", message_timeout_s=0.5
        )
        await client.reset()
        with pytest.raises(DeadlineExceededError):
            await client.step({})
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(timeout=30) == 0
        await client.close()

    assert "Traceback" not in served.log.read_text()


def test_limits_are_those_that_are_given(serve_process: ServeProcess) -> None:
    given = {
        "--max-message-size": ("1M", "max_message_bytes", 2**20),
        "--max-json-size": ("3M", "max_json_bytes", 3 * 2**20),
        "--max-unsent": ("2M", "max_unsent_bytes", 2**21),
        "--max-shared-memory": ("2G", "max_shared_bytes", 2**31),
        "--max-operations": ("3", "max_operations_per_session", 3),
        "--resume-window": ("4", "max_resume_window_s", 4),
        "--max-records": ("5", "max_records", 5),
        "--max-record-bytes": ("6K", "max_record_bytes", 6 * 2**10),
        "--max-kept-records": ("7", "max_kept_records", 7),
        "--max-kept-record-bytes": ("8K", "max_kept_record_bytes", 8 * 2**10),
        "--process-pool": ("9", "process_pool_size", 9),
        "--stuck-grace": ("0.5", "stuck_grace_s", 0.5),
        "--max-stuck": ("11", "max_stuck", 11),
        "--opens-per-minute": ("12", "opens_per_minute", 12),
        "--busy-poll-us": ("250", "busy_poll_s", 0.00025),
        "--max-queued": ("13", "max_queued", 13),
        "--queue-timeout": ("14", "queue_timeout_s", 14),
        "--detached-grace": ("15", "detached_grace_s", 15),
        "--max-snapshots": ("16", "max_snapshots", 16),
    }
    options = [part for option, (value, *_) in given.items() for part in (option, value)]
    with serve_process("echo_env", *options, "--log-lines-per-minute", "60") as served:
        url = f"http://{served.address('http')}/metrics"
        with urllib.request.urlopen(url, timeout=10) as response:
            metrics = response.read().decode()

    told = dict(re.findall(r'^openenv_limit\{limit="(\w+)"\} (\S+)$', metrics, re.MULTILINE))
    for option, (_, name, limit) in given.items():
        assert float(told[name]) == limit, option


def test_a_server_stays_on_one_processor_if_it_is_pinned(serve_process: ServeProcess) -> None:
    with serve_process("echo_env", "--pin") as served:
        threads = Path(f"/proc/{served.process.pid}/task").iterdir()
        assert {frozenset(os.sched_getaffinity(int(thread.name))) for thread in threads} == {
            frozenset({min(os.sched_getaffinity(0))})
        }


@pytest.mark.parametrize(
    ("options", "variables"),
    [(["--agent-tokens"], {}), ([], {"OPENENV_GRPC_AGENT_TOKENS": "1"})],
    ids=["option", "variable"],
)
async def test_agents_can_have_tokens_though_trainers_have_none(
    serve_process: ServeProcess, options: list[str], variables: dict[str, str]
) -> None:
    with serve_process("echo_env", *options, environment=variables) as served:
        async with MCPToolClient(f"grpc://{served.address('grpc')}") as trainer:
            access = await trainer.agent_access()
            assert access.token
            assert await trainer.call_tool("echo_message", message="mine") == "mine"
            request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
            for token, status in ((access.token, 200), (None, 401), ("another", 401)):
                headers = {} if token is None else {"Authorization": f"Bearer {token}"}
                async with (
                    aiohttp.ClientSession(headers=headers) as http,
                    http.post(access.url, json=request) as response,
                ):
                    assert response.status == status


async def test_several_environments_are_served_by_name(
    serve_process: ServeProcess, tmp_path: Path
) -> None:
    (tmp_path / "stubborn.py").write_text(SLOW_CLOSE.replace("threading.Event().wait()", "pass"))

    with serve_process(
        "echo_env", "stubborn:Stubborn", environment={"PYTHONPATH": str(tmp_path)}
    ) as served:
        url = f"http://{served.address('http')}"
        async with GenericEnvClient(base_url=url) as first:
            assert "echoed_message" in (await first.reset()).observation
        async with GenericEnvClient(base_url=url, environment="Stubborn") as second:
            assert "echoed_message" not in (await second.reset()).observation


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--refuse-when-full"], "at capacity: 1/1"),
        (["--queue-timeout", "0.2", "--max-queued", "1"], "within 0[.]2 seconds"),
        (["--hold-and-wait-grace", "0.2", "--detached-grace", "0.2"], "all idle"),
    ],
    ids=["refuse", "timeout", "grace"],
)
async def test_how_openings_wait_is_said_by_options(
    serve_process: ServeProcess, options: list[str], told: str
) -> None:
    with serve_process("echo_env", "--max-sessions", "1", *options) as served:
        url = f"grpc://{served.address('grpc')}"
        async with GenericEnvClient(base_url=url):
            with pytest.raises(SessionCapacityError, match=told):
                await GenericEnvClient(base_url=url).connect()


@pytest.mark.parametrize("redact", [False, True], ids=["told", "redacted"])
async def test_what_an_environment_raised_is_told_unless_redacted(
    serve_process: ServeProcess, tmp_path: Path, redact: bool
) -> None:
    (tmp_path / "stubborn.py").write_text(SLOW_CLOSE.replace("threading.Event().wait()", "pass"))
    options = ["--redact-errors"] if redact else []

    with serve_process(
        "stubborn:Stubborn", *options, environment={"PYTHONPATH": str(tmp_path)}
    ) as served:
        async with GenericEnvClient(base_url=f"grpc://{served.address('grpc')}") as client:
            await client.reset()
            with pytest.raises(EnvironmentFailedError) as caught:
                await client.step({})

    assert ("42" in str(caught.value)) is not redact
    assert "42" in served.log.read_text()


@pytest.mark.parametrize(
    "options", [("--max-snapshots", "1"), ("--max-snapshot-bytes", "8K")], ids=["number", "size"]
)
async def test_snapshots_are_bounded_as_the_server_is_told(
    serve_process: ServeProcess, options: tuple[str, str]
) -> None:
    with serve_process("echo_env", *options) as served:
        url = f"grpc://{served.address('grpc')}"
        async with GenericEnvClient(base_url=url) as client:
            await client.reset()
            first, second = await client.snapshot(), await client.snapshot()
        with pytest.raises(SnapshotNotFoundError):
            await GenericEnvClient(base_url=url, snapshot_id=first).connect()
        async with GenericEnvClient(base_url=url, snapshot_id=second) as fork:
            await fork.step({"message": "hello"})


async def test_the_log_is_json_if_asked_for(serve_process: ServeProcess) -> None:
    with serve_process("echo_env", "--log-format", "json", "--log-level", "debug") as served:
        async with GenericEnvClient(base_url=f"grpc://{served.address('grpc')}") as client:
            await client.reset()
        served.process.send_signal(signal.SIGTERM)
        served.process.wait(timeout=20)

    lines = [json.loads(line) for line in served.log.read_text().splitlines()]
    assert any("session" in line["message"] for line in lines)
    assert {"time", "level", "logger", "message"} <= set(lines[0])


@pytest.mark.parametrize("option", ["--grpc-port", "--http-port"])
def test_a_port_in_use_is_told_in_one_line_with_status_2(option: str) -> None:
    other = {"--grpc-port": "--http-port", "--http-port": "--grpc-port"}[option]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])

        ended = serve("echo_env", option, port, other, "0")

    assert ended.returncode == 2
    assert ended.stdout == ""
    assert len(ended.stderr.splitlines()) == 1
    assert f"127.0.0.1:{port}" in ended.stderr
    assert option in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("nowhere",), "there is no environment 'nowhere'"),
        (("json:JSONDecoder",), "is no environment"),
        (("echo_env", "--host", "0.0.0.0"), "--insecure"),
        (("echo_env", "--no-grpc", "--no-http"), "has no door"),
        (("echo_env", "echo_env"), "named 'echo_env'"),
        (("echo_env", "json:JSONDecoder", "--env-name", "mine"), "are for a single TARGET"),
        (("echo_env", "--pin", "--isolation", "process"), "--isolation process on one processor"),
    ],
    ids=[
        "no such target",
        "no environment",
        "beyond loopback",
        "no door",
        "two",
        "two and name",
        "pinned processes",
    ],
)
def test_what_cannot_be_served_is_told_in_one_line_with_status_2(
    arguments: tuple[str, ...], told: str
) -> None:
    ended = serve(*arguments)

    assert ended.returncode == 2
    assert ended.stdout == ""
    assert len(ended.stderr.splitlines()) == 1
    assert told in ended.stderr
    assert ended.stderr.startswith("openenv-grpc: ")


def test_more_sessions_than_a_class_supports_are_refused(tmp_path: Path) -> None:
    (tmp_path / "single.py").write_text(SLOW_CLOSE.replace("SESSIONS = True", "SESSIONS = False"))

    ended = serve(
        "single:Stubborn", "--grpc-port", "0", "--no-http", "--max-sessions", "2", cwd=tmp_path
    )

    assert ended.returncode == 2
    assert "SUPPORTS_CONCURRENT_SESSIONS" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


@pytest.mark.reference
def test_an_environment_of_the_reference_is_served_as_it_is(
    serve_process: ServeProcess, reference_python: Path
) -> None:
    with (
        serve_process("tests/envs/reference_echo", python=reference_python) as served,
        GenericEnvClient(base_url=f"grpc://{served.address('grpc')}").sync() as client,
    ):
        client.reset()
        result = client.step(
            {"type": "call_tool", "tool_name": "echo_message", "arguments": {"message": "hi"}}
        )
        assert result.observation["result"]["data"] == "hi"
        assert client.state()["step_count"] == 1


# Tokens

TELLS_ITS_VARIABLE = """
import os
from openenv_grpc import Action, Environment, Observation

class Telling(Environment):
    def reset(self, seed=None, episode_id=None) -> Observation:
        return Observation(metadata={"token": os.environ.get("OPENENV_GRPC_TOKEN", "")})

    def step(self, action: Action) -> Observation:
        return Observation()
"""


@pytest.mark.parametrize("by", ["file", "variable"])
async def test_a_server_beyond_this_machine_asks_for_its_token(
    serve_process: ServeProcess, tmp_path: Path, by: str
) -> None:
    file = tmp_path / "tokens"
    file.write_text("# trainers\nthe-trainers-token\n")
    options = ["--token-file", str(file)] if by == "file" else []
    environment = {} if by == "file" else {"OPENENV_GRPC_TOKEN": "the-trainers-token"}
    with serve_process(
        "echo_env", "--host", "0.0.0.0", "--log-level", "debug", *options, environment=environment
    ) as served:
        port = served.address("grpc").removeprefix("0.0.0.0:")
        url = f"grpc://127.0.0.1:{port}"
        async with GenericEnvClient(base_url=url, token="the-trainers-token") as client:
            await client.reset()
        with pytest.raises(UnauthenticatedError):
            await GenericEnvClient(base_url=url).connect()
        served.process.send_signal(signal.SIGTERM)
        served.process.wait(timeout=20)

    assert re.fullmatch(r"READY grpc=0\.0\.0\.0:\d+ http=0\.0\.0\.0:\d+", served.ready)
    assert "the-trainers-token" not in served.log.read_text()


async def test_an_environment_does_not_inherit_the_token(
    serve_process: ServeProcess, tmp_path: Path
) -> None:
    (tmp_path / "telling.py").write_text(TELLS_ITS_VARIABLE)
    path = os.pathsep.join((str(tmp_path), os.environ.get("PYTHONPATH", "")))
    environment = {"PYTHONPATH": path, "OPENENV_GRPC_TOKEN": "the-trainers-token"}
    with serve_process("telling:Telling", environment=environment) as served:
        url = f"grpc://{served.address('grpc')}"
        async with GenericEnvClient(base_url=url, token="the-trainers-token") as client:
            assert (await client.reset()).observation["metadata"] == {"token": ""}


async def test_the_doors_are_protected_as_the_options_say(
    serve_process: ServeProcess, tmp_path: Path
) -> None:
    made = make_certificates(tmp_path)
    with serve_process(
        "echo_env",
        *("--tls-cert", str(made.server), "--tls-key", str(made.server_key)),
        *("--tls-client-ca", str(made.ca)),
        *("--public-url", "https://lab.example"),
        *("--allowed-host", "127.0.0.1", "--allowed-host", "lab.example"),
        *("--allowed-origin", "https://page.example"),
    ) as served:
        url = f"https://{served.address('http')}"
        own = {"tls_ca": made.ca, "tls_cert": made.client, "tls_key": made.client_key}
        for origin in ("https://page.example", "https://lab.example"):
            async with GenericEnvClient(base_url=url, headers={"Origin": origin}, **own) as client:
                assert (await client.agent_access()).url == "https://lab.example/mcp"
        for headers in ({"Origin": "https://evil.example"}, {"Host": "evil.example"}):
            with pytest.raises(PermissionDeniedError):
                await GenericEnvClient(base_url=url, headers=headers, **own).connect()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--host", "0.0.0.0"], "--token-file"),
        (["--token-file", "missing"], "--token-file"),
        (["--tls-cert", "missing"], "--tls-key"),
        (["--tls-client-ca", "missing"], "--tls-cert"),
        (["--public-url", "nowhere"], "--public-url"),
        (["--allowed-host", "http://here"], "--allowed-host"),
        (["--allowed-origin", "here"], "--allowed-origin"),
    ],
)
def test_a_protection_that_makes_no_sense_is_told_with_status_2(
    tmp_path: Path, options: list[str], told: str
) -> None:
    run = serve("echo_env", "--grpc-port", "0", "--http-port", "0", *options)

    assert run.returncode == 2
    assert told in run.stderr
    assert len(run.stderr.splitlines()) == 1
