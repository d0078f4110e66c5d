"""A server with all its doors, inside another program."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

import aiohttp
import grpc.aio
import pytest
from google.protobuf.duration_pb2 import Duration

from echo_env import EchoAction, EchoEnv
from echo_env.models import EchoObservation
from echo_env.server.echo_environment import EchoEnvironment
from openenv_grpc import GenericEnvClient, Server, create_app
from openenv_grpc.client.catalog import describe
from openenv_grpc.engine import EnvironmentDefinition
from openenv_grpc.errors import (
    ConfigurationError,
    ModeForbidsError,
    NotSupportedError,
    OpenEnvError,
    SessionCapacityError,
    UnauthenticatedError,
    UnavailableError,
)
from openenv_grpc.v1 import admin_pb2, admin_pb2_grpc
from tests.certificates import make_certificates
from tests.environments import Count, Countdown, Counted

LOOPBACK = "127.0.0.1"
TOKEN = "trainer-token-of-the-tests"


def echo(**options: object) -> EnvironmentDefinition:
    return EnvironmentDefinition(
        factory=EchoEnvironment,
        action_type=EchoAction,
        observation_type=EchoObservation,
        **options,  # type: ignore[arg-type]
    )


async def test_every_door_leads_to_the_same_environment() -> None:
    async with Server("echo_env", grpc_port=0, http_port=0) as server:
        for url in (
            f"grpc://{server.grpc_address}",
            f"http://{server.http_address}",
            f"ws://{server.http_address}",
        ):
            async with EchoEnv(base_url=url) as client:
                await client.reset()
                result = await client.step(EchoAction(message="hello"))
                assert result.observation.echoed_message == "hello"


async def test_it_takes_names_apps_and_definitions() -> None:
    app = create_app(EchoEnvironment, EchoAction, EchoObservation, env_name="second")

    async with Server("echo_env", app, echo(name="third"), grpc_port=None, http_port=0) as server:
        for name in ("", "second", "third"):
            client = GenericEnvClient(base_url=f"http://{server.http_address}", environment=name)
            async with client:
                result = await client.reset()
                assert result.observation["echoed_message"] == "Echo environment ready!"


async def test_a_door_that_is_not_asked_for_is_not_there(tmp_path: Path) -> None:
    async with Server(echo(), grpc_port=None, http_port=0) as server:
        assert server.grpc_address is None
        assert server.unix_path is None
    async with Server(echo(), grpc_port=0, http_port=None) as server:
        assert server.http_address is None


async def test_a_unix_socket_is_a_door_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "server.sock"

    async with Server(echo(), grpc_port=None, http_port=None, unix=path) as server:
        assert server.unix_path == str(path)
        assert path.stat().st_mode & 0o077 == 0
        async with EchoEnv(base_url=f"unix:{path}") as client:
            assert (await client.reset()).observation.echoed_message == "Echo environment ready!"

    assert not path.exists()


async def test_a_unix_socket_for_http_is_a_door_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "http.sock"

    async with Server(echo(), grpc_port=None, http_port=None, http_unix=path) as server:
        assert (server.http_unix_path, server.http_address) == (str(path), None)
        assert path.stat().st_mode & 0o077 == 0
        async with EchoEnv(base_url=f"http+unix:{path}") as client:
            assert (await client.reset()).observation.echoed_message == "Echo environment ready!"
            assert client.shares_memory is (sys.platform == "linux")
        with pytest.raises(ConfigurationError, match=r"a server listens on .* already"):
            async with Server(echo(), grpc_port=None, http_port=None, http_unix=path):
                pass

    assert not path.exists()
    with pytest.raises(UnavailableError, match=r"http\.sock"):
        await EchoEnv(base_url=f"http+unix:{path}").connect()


async def test_both_sockets_are_listed_beside_the_ports(tmp_path: Path) -> None:
    http, grpc_path = tmp_path / "http.sock", tmp_path / "grpc.sock"

    async with Server(echo(), grpc_port=0, http_port=0, unix=grpc_path, http_unix=http) as server:
        async with EchoEnv(base_url=f"http://{server.http_address}") as client:
            await client.reset()
        [described] = await describe(f"unix:{grpc_path}")
        assert described.doors["unix"] == f"unix:{grpc_path}"
        assert described.doors["http+unix"] == f"http+unix:{http}"
        assert described.doors["http"].startswith("http://127.0.0.1:")
        [described] = await describe(f"http+unix:{http}")
        assert described.doors == {"http+unix": f"http+unix:{http}"}
        assert "action" in described.schemas


async def test_a_unix_socket_left_behind_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "server.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))

    async with (
        Server(echo(), grpc_port=None, http_port=None, unix=path),
        EchoEnv(base_url=f"unix:{path}") as client,
    ):
        await client.reset()


async def test_a_unix_socket_in_use_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "server.sock"

    async with Server(echo(), grpc_port=None, http_port=None, unix=path):
        with pytest.raises(ConfigurationError, match=r"a server listens on .* already"):
            async with Server(echo(), grpc_port=None, http_port=None, unix=path):
                pass
        async with EchoEnv(base_url=f"unix:{path}") as client:
            await client.reset()


@pytest.mark.parametrize("name", ["missing/socket", "x" * 120], ids=["no folder", "too long"])
async def test_where_no_unix_socket_can_be_it_is_said_why(tmp_path: Path, name: str) -> None:
    server = Server(echo(), grpc_port=None, http_port=None, unix=tmp_path / name)

    with pytest.raises(ConfigurationError, match=r"No such file|too long.*--unix"):
        async with server:
            pass


async def test_a_file_in_the_place_of_a_unix_socket_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "precious"
    path.write_text("precious")

    with pytest.raises(ConfigurationError, match="is no socket"):
        async with Server(echo(), grpc_port=None, http_port=None, unix=path):
            pass

    assert path.read_text() == "precious"


async def test_stop_ends_the_wait() -> None:
    async with Server(echo(), grpc_port=0, http_port=0) as server:
        waiting = asyncio.create_task(server.wait_stopped())
        server.stop()
        async with asyncio.timeout(5):
            await waiting


async def test_leaving_the_block_closes_doors_and_environments() -> None:
    closed = asyncio.Event()
    loop = asyncio.get_running_loop()

    class Watched(EchoEnvironment):
        def close(self) -> None:
            loop.call_soon_threadsafe(closed.set)

    app = create_app(Watched, EchoAction, EchoObservation)
    async with Server(app, grpc_port=0, http_port=0) as server:
        client = GenericEnvClient(base_url=f"grpc://{server.grpc_address}")
        await client.reset()

    assert closed.is_set()
    for address in (server.grpc_address, server.http_address):
        assert address is not None
        with socket.socket() as probe:
            assert probe.connect_ex((LOOPBACK, int(address.rpartition(":")[2]))) != 0
    await client.close()


async def test_a_server_that_drains_stops_once_its_sessions_have_ended() -> None:
    async with Server(echo(), grpc_port=0, http_port=None) as server:
        async with EchoEnv(base_url=f"grpc://{server.grpc_address}") as client:
            await client.reset()
            await drain(server, admin_pb2.DrainRequest())
            await client.step(EchoAction(message="still here"))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(server.wait_stopped(), 0.5)
        async with asyncio.timeout(5):
            await server.wait_stopped()


async def test_a_server_that_drains_stops_once_its_episodes_are_over() -> None:
    definition = EnvironmentDefinition(
        factory=Countdown, action_type=Count, observation_type=Counted
    )
    async with (
        Server(definition, grpc_port=0, http_port=None) as server,
        GenericEnvClient(base_url=f"grpc://{server.grpc_address}") as client,
    ):
        await client.reset(start=2)
        assert server.drain() == 1
        await client.step({})
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(server.wait_stopped(), 1.5)
        assert (await client.step({})).done
        assert (await client.state())["step_count"] == 2
        async with asyncio.timeout(5):
            await server.wait_stopped()


@pytest.mark.parametrize("limits", [(None, 0), (0,)], ids=["a later drain", "the first drain"])
async def test_a_drain_may_be_told_to_take_no_time(limits: tuple[float | None, ...]) -> None:
    async with (
        Server(echo(), grpc_port=0, http_port=None) as server,
        EchoEnv(base_url=f"grpc://{server.grpc_address}") as client,
    ):
        await client.reset()
        for limit_s in limits:
            server.drain(limit_s)
        async with asyncio.timeout(2):
            await server.wait_stopped()


async def test_a_drain_that_says_no_limit_leaves_an_earlier_one_as_it_is() -> None:
    async with (
        Server(echo(), grpc_port=0, http_port=None, drain_timeout_s=0) as server,
        EchoEnv(base_url=f"grpc://{server.grpc_address}") as client,
    ):
        await client.reset()
        server.drain(60)
        server.drain()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(server.wait_stopped(), 0.3)


async def test_a_server_takes_as_long_to_drain_as_it_was_made_for() -> None:
    async with (
        Server(echo(), grpc_port=0, http_port=None, drain_timeout_s=0.01) as server,
        EchoEnv(base_url=f"grpc://{server.grpc_address}") as client,
    ):
        await client.reset()
        await drain(server, admin_pb2.DrainRequest())
        async with asyncio.timeout(5):
            await server.wait_stopped()


async def test_a_server_that_drains_waits_no_longer_than_it_was_told() -> None:
    async with (
        Server(echo(), grpc_port=0, http_port=None) as server,
        EchoEnv(base_url=f"grpc://{server.grpc_address}") as client,
    ):
        await client.reset()
        await drain(server, admin_pb2.DrainRequest(limit_timeout=Duration(nanos=1)))
        async with asyncio.timeout(5):
            await server.wait_stopped()


async def drain(server: Server, request: admin_pb2.DrainRequest) -> None:
    assert server.grpc_address is not None
    async with grpc.aio.insecure_channel(server.grpc_address) as channel:
        response = await admin_pb2_grpc.AdminServiceStub(channel).Drain(request)
    assert response.session_count == 1


@pytest.mark.parametrize("door", ["grpc_port", "http_port"])
async def test_a_port_in_use_is_told_and_the_other_doors_are_closed_again(door: str) -> None:
    other = {"grpc_port": "http_port", "http_port": "grpc_port"}[door]
    with socket.create_server((LOOPBACK, 0)) as taken, socket.create_server((LOOPBACK, 0)) as free:
        port, free_port = taken.getsockname()[1], free.getsockname()[1]
        free.close()
        ports: dict[str, int] = {door: port, other: free_port}

        with pytest.raises(ConfigurationError) as caught:
            async with Server(echo(), grpc_port=ports["grpc_port"], http_port=ports["http_port"]):
                pass

    assert f"127.0.0.1:{port}" in str(caught.value)
    assert f"--{door.replace('_', '-')}" in str(caught.value)
    with socket.socket() as probe:
        assert probe.connect_ex((LOOPBACK, free_port)) != 0


async def test_a_grpc_port_in_use_by_another_server_is_told() -> None:
    async with Server(echo(), grpc_port=0, http_port=None) as server:
        assert server.grpc_address is not None
        port = int(server.grpc_address.rpartition(":")[2])

        with pytest.raises(ConfigurationError, match="cannot listen"):
            async with Server(echo(), grpc_port=port, http_port=None):
                pass


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org", ""])
def test_listening_beyond_this_machine_has_to_be_meant(host: str) -> None:
    with pytest.raises(ConfigurationError, match="insecure"):
        Server(echo(), host=host)


async def test_listening_beyond_this_machine_can_be_meant() -> None:
    async with Server(echo(), host="0.0.0.0", grpc_port=0, http_port=0, insecure=True) as server:
        assert server.http_address is not None
        port = server.http_address.removeprefix("0.0.0.0:")
        async with (
            aiohttp.ClientSession() as http,
            http.get(f"http://127.0.0.1:{port}/health") as response,
        ):
            assert response.status == 200


@pytest.mark.parametrize("host", ["192.0.2.1", "nowhere.invalid"])
async def test_an_address_that_is_not_this_machines_is_told(host: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot listen on"):
        async with Server(echo(), host=host, grpc_port=0, http_port=0, insecure=True):
            pass


async def test_localhost_is_this_machine() -> None:
    async with (
        Server(echo(), host="localhost", grpc_port=0, http_port=0) as server,
        EchoEnv(base_url=f"grpc://{server.grpc_address}") as client,
    ):
        await client.reset()


async def test_ipv6_loopback_is_written_in_brackets() -> None:
    async with Server(echo(), host="::1", grpc_port=0, http_port=0) as server:
        assert server.grpc_address is not None
        assert server.grpc_address.startswith("[::1]:")
        async with EchoEnv(base_url=f"grpc://{server.grpc_address}") as client:
            await client.reset()


async def test_the_servers_options_come_before_the_environments_own() -> None:
    definition = echo(max_sessions=5)

    async with Server(definition, grpc_port=0, http_port=None, max_sessions=1) as server:
        url = f"grpc://{server.grpc_address}"
        async with EchoEnv(base_url=url):
            with pytest.raises(SessionCapacityError):
                await EchoEnv(base_url=url, queue_timeout_s=0).connect()


async def test_a_server_has_openings_wait_unless_it_is_to_refuse_them() -> None:
    for options, told in (
        ({"queue_timeout_s": 0.1}, r"within 0\.1 seconds"),
        ({"hold_and_wait_grace_s": 0.1}, "all idle"),
        ({"refuse_when_full": True}, "at capacity: 1/1"),
    ):
        async with Server(echo(), grpc_port=0, http_port=None, max_sessions=1, **options) as server:
            url = f"grpc://{server.grpc_address}"
            async with EchoEnv(base_url=url):
                with pytest.raises(SessionCapacityError, match=told):
                    await EchoEnv(base_url=url).connect()


async def test_the_mode_of_the_server_comes_before_the_environments_own() -> None:
    async with (
        Server(echo(), grpc_port=0, http_port=None, mode="production") as server,
        EchoEnv(base_url=f"grpc://{server.grpc_address}") as client,
    ):
        with pytest.raises(ModeForbidsError):
            await client.reset()


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Server(), "name an environment"),
        (lambda: Server(echo(), grpc_port=None, http_port=None), "has no door"),
        (lambda: Server(echo(), mode="dreaming"), "no mode 'dreaming'"),
        (lambda: Server(echo(), drain_timeout_s=-1), "at least 0"),
        (lambda: Server(echo(), queue_timeout_s=-1), "queue_timeout_s is at least 0"),
        (lambda: Server(echo(), hold_and_wait_grace_s=float("nan")), "is at least 0, not nan"),
        (lambda: Server(echo(), max_snapshots=-1), "max_snapshots is at least 0"),
        (lambda: Server(echo(), max_snapshot_bytes=-1), "max_snapshot_bytes is at least 0"),
        (lambda: Server(echo(name="same"), echo(name="same")), "named 'same'"),
        (
            lambda: Server(
                EnvironmentDefinition(
                    factory=dict, action_type=EchoAction, observation_type=EchoObservation
                )
            ),
            "no environment",
        ),
    ],
    ids=[
        "no target",
        "no door",
        "no such mode",
        "no time to drain",
        "no time to wait",
        "no number",
        "fewer snapshots than none",
        "less than nothing in snapshots",
        "two of a name",
        "no environment",
    ],
)
def test_a_server_that_makes_no_sense_is_refused(make: type[Server], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        make()


# Tokens


def urls(server: Server, *, secure: bool = False) -> list[str]:
    """The base URLs by which a server is reached."""
    letter = "s" if secure else ""
    found = [
        f"grpc{letter}://{server.grpc_address}",
        f"http{letter}://{server.http_address}",
        f"ws{letter}://{server.http_address}",
    ]
    return [*found, f"unix:{server.unix_path}"] if server.unix_path else found


async def test_every_door_asks_for_the_token(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    path = tmp_path / "server.sock"
    async with Server(echo(), grpc_port=0, http_port=0, unix=path, tokens=TOKEN) as server:
        for url in urls(server):
            async with EchoEnv(base_url=url, token=TOKEN) as client:
                await client.reset()
            assert (await describe(url, token=TOKEN))[0].name == "EchoEnvironment"
            for token in (None, "wrong-token"):
                client = EchoEnv(base_url=url, token=token)
                for call in (client.connect, partial(describe, url, token=token)):
                    with pytest.raises(UnauthenticatedError) as caught:
                        await call()
                    assert "wrong-token" not in f"{caught.value!r} {caught.value}"

    assert TOKEN not in caplog.text
    assert "wrong-token" not in caplog.text


async def test_a_header_may_bring_the_token() -> None:
    headers = {"authorization": f"Bearer {TOKEN}"}
    async with Server(echo(), grpc_port=0, http_port=0, tokens=[TOKEN, "second"]) as server:
        for url in urls(server):
            async with EchoEnv(base_url=url, headers=headers) as client:
                await client.reset()


async def test_both_ends_take_the_token_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENENV_GRPC_TOKEN", TOKEN)
    async with Server(echo(), grpc_port=0, http_port=0) as server:
        for url in urls(server):
            async with EchoEnv(base_url=url) as client:
                await client.reset()
            assert (await describe(url))[0].name == "EchoEnvironment"
            with pytest.raises(UnauthenticatedError):
                await EchoEnv(base_url=url, token="wrong-token").connect()


async def test_with_a_token_a_server_may_listen_beyond_this_machine(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"# trainers\n{TOKEN}\n")
    async with Server(echo(), host="0.0.0.0", grpc_port=0, http_port=0, token_file=file) as server:
        assert server.grpc_address is not None
        port = server.grpc_address.removeprefix("0.0.0.0:")
        async with EchoEnv(base_url=f"grpc://127.0.0.1:{port}", token=TOKEN) as client:
            access = await client.agent_access()
        assert server.http_address is not None
        assert access.url == f"http://127.0.0.1:{server.http_address.removeprefix('0.0.0.0:')}/mcp"


# What agents are told


async def test_an_agent_is_told_where_its_tools_are_and_how_to_open_them() -> None:
    async with Server(echo(), grpc_port=0, http_port=0, tokens=TOKEN) as server:
        for url in urls(server):
            async with EchoEnv(base_url=url, token=TOKEN) as client:
                access = await client.agent_access()
                assert access.url == f"http://{server.http_address}/mcp"
                assert access.token not in repr(access)
                entry = json.loads(access.mcp_json("echo"))["mcpServers"]["echo"]
                assert (entry["type"], entry["url"]) == ("http", access.url)
                request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
                async with (
                    aiohttp.ClientSession(headers=entry["headers"]) as http,
                    http.post(entry["url"], json=request) as response,
                ):
                    assert "tools" in (await response.json())["result"]
            with pytest.raises(UnauthenticatedError):  # its session has ended
                await describe(url, token=access.token)


async def test_an_agent_has_no_trainers_client() -> None:
    async with (
        Server(echo(), grpc_port=0, http_port=0, tokens=TOKEN) as server,
        EchoEnv(base_url=urls(server)[0], token=TOKEN) as client,
    ):
        token = (await client.agent_access()).token
        for url in urls(server):
            with pytest.raises(OpenEnvError, match="PERMISSION_DENIED"):
                await EchoEnv(base_url=url, token=token).connect()


async def test_without_tokens_an_agent_is_told_its_session() -> None:
    async with (
        Server(echo(), echo(name="second"), grpc_port=0, http_port=0) as server,
        EchoEnv(base_url=urls(server)[0], environment="second") as client,
    ):
        access = await client.agent_access()
        assert access.url == f"http://{server.http_address}/second/mcp"
        assert access.token == ""
        entry = json.loads(access.mcp_json())["mcpServers"]["environment"]
        assert "headers" not in entry
        params = {"session_id": access.session_id}
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params}
        async with (
            aiohttp.ClientSession() as http,
            http.post(access.url, json=request) as response,
        ):
            assert "tools" in (await response.json())["result"]


async def test_without_an_http_door_there_is_nowhere_to_speak_mcp() -> None:
    async with (
        Server(echo(), grpc_port=0, http_port=None, tokens=TOKEN) as server,
        EchoEnv(base_url=f"grpc://{server.grpc_address}", token=TOKEN) as client,
    ):
        access = await client.agent_access()
        assert access.url == ""
        with pytest.raises(NotSupportedError, match="no HTTP door"):
            access.mcp_json()


async def test_a_public_url_is_what_others_are_told() -> None:
    options = {"grpc_port": 0, "http_port": 0, "public_url": "https://lab.example/envs/"}
    async with Server(echo(), echo(name="second"), **options) as server:  # type: ignore[arg-type]
        url = urls(server)[0]
        for name, path in [("", "/mcp"), ("second", "/second/mcp")]:
            async with EchoEnv(base_url=url, environment=name) as client:
                told = (await client.agent_access()).url
                assert told == f"https://lab.example/envs{path}"
        doors = (await describe(url, "second"))[0].doors
        assert doors["http"] == "https://lab.example/envs/second"
        assert doors["ws"] == "wss://lab.example/envs/second/ws"
        assert doors["mcp"] == "https://lab.example/envs/second/mcp"


# Whose requests


async def test_hosts_and_origins_are_checked_as_the_server_is_told() -> None:
    async with (
        Server(
            echo(),
            grpc_port=None,
            http_port=0,
            allowed_hosts=["lab.example"],
            allowed_origins=["https://page.example"],
        ) as server,
        aiohttp.ClientSession() as http,
    ):
        for headers, status in [
            ({}, 200),
            ({"Host": "lab.example"}, 200),
            ({"Host": "evil.example"}, 403),
            ({"Origin": "https://page.example"}, 200),
            ({"Origin": "https://evil.example"}, 403),
        ]:
            url = f"http://{server.http_address}/reset"
            async with http.post(url, headers=headers) as response:
                assert response.status == status


# TLS


async def test_every_port_speaks_tls(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    path = tmp_path / "server.sock"
    async with Server(
        echo(),
        grpc_port=0,
        http_port=0,
        unix=path,
        tokens=TOKEN,
        tls_cert=made.server,
        tls_key=made.server_key,
    ) as server:
        for url in urls(server, secure=True)[:3]:
            async with EchoEnv(base_url=url, token=TOKEN, tls_ca=made.ca) as client:
                await client.reset()
                assert (await client.agent_access()).url == f"https://{server.http_address}/mcp"
            assert (await describe(url, token=TOKEN, tls_ca=made.ca))[0].name == "EchoEnvironment"
            with pytest.raises(UnauthenticatedError):
                await EchoEnv(base_url=url, tls_ca=made.ca).connect()
        async with EchoEnv(base_url=f"unix:{path}", token=TOKEN) as client:
            await client.reset()


async def test_a_server_that_nobody_vouches_for_is_not_talked_to(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    async with Server(
        echo(), grpc_port=0, http_port=0, tls_cert=made.server, tls_key=made.server_key
    ) as server:
        for url in urls(server, secure=True):
            for ca in (None, made.other_ca):
                client = EchoEnv(base_url=url, tls_ca=ca, connect_timeout_s=5)
                with pytest.raises(UnavailableError):
                    await client.connect()


async def test_a_server_with_tls_takes_nothing_in_the_clear(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    async with Server(
        echo(), grpc_port=0, http_port=0, tls_cert=made.server, tls_key=made.server_key
    ) as server:
        for url in urls(server):
            with pytest.raises(UnavailableError):
                await EchoEnv(base_url=url, connect_timeout_s=5).connect()


async def test_clients_show_a_certificate_if_they_are_asked_for_one(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    async with Server(
        echo(),
        grpc_port=0,
        http_port=0,
        tls_cert=made.server,
        tls_key=made.server_key,
        tls_client_ca=made.ca,
    ) as server:
        for url in urls(server, secure=True):
            own = {"tls_ca": made.ca, "tls_cert": made.client, "tls_key": made.client_key}
            async with EchoEnv(base_url=url, **own) as client:
                await client.reset()
            assert (await describe(url, **own))[0].name == "EchoEnvironment"
            foreign = {"tls_cert": made.foreign, "tls_key": made.foreign_key}
            for shown in ({}, foreign):
                client = EchoEnv(base_url=url, tls_ca=made.ca, connect_timeout_s=5, **shown)
                with pytest.raises(UnavailableError):
                    await client.connect()


@pytest.mark.parametrize(
    "options",
    [
        {"progress_interval_s": 0},
        {"ping_interval_s": -1},
        {"ping_timeout_s": 0},
        {"ping_interval_s": float("inf")},
        {"ping_timeout_s": float("nan")},
    ],
    ids=str,
)
def test_beats_that_make_no_sense_are_refused(options: dict[str, float]) -> None:
    (name,) = options
    with pytest.raises(ConfigurationError, match=name):
        Server(echo(), **options)  # type: ignore[arg-type]


SERVED = """
import builtins, gc, sys
say, collections = print, []
def ready(*words, **options):
    say(*{shown})
    raise KeyboardInterrupt
builtins.print = ready
sys.argv = ["openenv-grpc", "serve", "tests.environments:Countdown"]
sys.argv += ["--grpc-port", "0", "--http-port", "0"]
gc.callbacks.append(lambda phase, info: collections.append(phase))
from openenv_grpc.cli.main import main
main()
"""

BUILT = """[
    value.__name__
    for name in ("http_routes", "jsonrpc", "tasks", "ws_messages")
    for value in vars(sys.modules["openenv_bridge." + name]).values()
    if isinstance(value, type) and value.__module__.startswith("openenv_bridge")
    and vars(value).get("__pydantic_complete__")
]"""


def shown_at_ready(shown: str) -> list[str]:
    """Starts a server and returns what an expression is when it is ready, in words."""
    ended = subprocess.run(
        [sys.executable, "-c", SERVED.replace("{shown}", shown)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "Traceback" not in ended.stderr, ended.stderr
    return ended.stdout.split()


def test_a_server_is_ready_before_it_has_loaded_what_few_are_asked_for() -> None:
    loaded = set(shown_at_ready("sys.modules"))
    assert {"aiohttp.web", "grpc", "openenv_grpc.server", "openenv_bridge"} <= loaded
    assert loaded.isdisjoint(
        {
            "grpc_channelz.v1.channelz",
            "grpc_reflection.v1alpha.reflection",
            "mcp",
            "multiprocessing",
            "numpy",
            "openenv_grpc.cli.call",
            "openenv_grpc.cli.mcp",
            "openenv_grpc.client",
            "openenv_grpc.engine.process",
            "openenv_grpc.wire.peeling",
            "openenv_grpc.workers",
        }
    )


def test_a_server_is_ready_before_it_can_read_the_frames_and_bodies_of_doors_for_json() -> None:
    assert shown_at_ready(BUILT) == []


def test_hardly_any_garbage_is_collected_before_a_server_is_ready() -> None:
    assert int(shown_at_ready("[len(collections)]")[0]) < 100
