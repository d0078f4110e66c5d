"""A server with all its doors, inside another program."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import aiohttp
import grpc.aio
import pytest
from google.protobuf.duration_pb2 import Duration

from echo_env import EchoAction, EchoEnv
from echo_env.models import EchoObservation
from echo_env.server.echo_environment import EchoEnvironment
from openenv_grpc import GenericEnvClient, Server, create_app
from openenv_grpc.engine import EnvironmentDefinition
from openenv_grpc.errors import ConfigurationError, ModeForbidsError, SessionCapacityError
from openenv_grpc.v1 import admin_pb2, admin_pb2_grpc

LOOPBACK = "127.0.0.1"


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
    ids=["no target", "no door", "no such mode", "two of a name", "no environment"],
)
def test_a_server_that_makes_no_sense_is_refused(make: type[Server], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        make()
