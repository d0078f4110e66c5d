"""A server that is killed: one typed error in bounded time, and work goes on with the next one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from openenv_grpc.client import GenericEnvClient
from openenv_grpc.errors import SessionNotFoundError, UnavailableError
from tests.served_process import ServedProcess, start_server

TARGET = "echo_env"


def doors(served: ServedProcess) -> dict[str, str]:
    return {
        door: served.address(door).removeprefix(f"{door}://").removeprefix(f"{door}=")
        for door in ("grpc", "http")
    }


@pytest.mark.parametrize("door", ["grpc", "http"])
async def test_a_killed_server_is_one_typed_error_and_its_successor_is_used(
    tmp_path: Path, door: str
) -> None:
    with start_server(tmp_path, TARGET) as served:
        found = doors(served)
        client = GenericEnvClient(f"{door}://{found[door]}", resume_window_s=20)
        await client.reset()
        served.process.kill()
        served.process.wait()
        step = asyncio.create_task(client.step({"message": "hello"}))
    grpc_port, http_port = (found[name].rpartition(":")[2] for name in ("grpc", "http"))
    ports = ("--grpc-port", grpc_port, "--http-port", http_port)
    with start_server(tmp_path, TARGET, ports=ports):
        async with asyncio.timeout(20):
            with pytest.raises(SessionNotFoundError) as caught:
                await step
            assert caught.value.session_lost
            with pytest.raises(SessionNotFoundError, match=r"call reset\(\)"):
                await client.step({"message": "hello"})
            await client.reset()
            assert (await client.step({"message": "hello"})).observation
            await client.close()


@pytest.mark.parametrize("door", ["grpc", "http"])
async def test_a_killed_server_that_does_not_come_back_is_one_typed_error(
    tmp_path: Path, door: str
) -> None:
    with start_server(tmp_path, TARGET) as served:
        client = GenericEnvClient(f"{door}://{doors(served)[door]}", resume_window_s=0.5)
        await client.reset()
        served.process.kill()
        async with asyncio.timeout(10):
            with pytest.raises(UnavailableError, match="window") as caught:
                await client.step({"message": "hello"})
            assert caught.value.session_lost
            with pytest.raises(UnavailableError):
                await client.reset()
            await client.close()
