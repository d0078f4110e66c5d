"""How the client dials by gRPC."""

from __future__ import annotations

import asyncio
import gc
import random
from pathlib import Path

from openenv_grpc.client import GenericEnvClient
from openenv_grpc.client.dialling import dial
from openenv_grpc.client.transport import ConnectionOptions
from openenv_grpc.client.urls import parse_url
from tests.client.conftest import serve_environments
from tests.exactly_once.proxy import proxied

FAR_AWAY_S = 0.4
"""Beyond what a first attempt had when it was as short as the wait between attempts."""


async def test_a_server_that_is_far_away_is_connected_to_at_the_first_attempt(
    tmp_path: Path,
) -> None:
    attempts = 0

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(2**16):
            writer.write(data)
        writer.close()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal attempts
        attempts += 1
        await asyncio.sleep(FAR_AWAY_S)  # as a long way with TLS takes
        port = urls["grpc"].rpartition(":")[2]
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", int(port))
        await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))

    async with (
        serve_environments(path=tmp_path) as urls,
        await asyncio.start_server(carry, "127.0.0.1", 0) as proxy,
    ):
        port = proxy.sockets[0].getsockname()[1]
        async with GenericEnvClient(f"grpc://127.0.0.1:{port}") as client:
            assert (await client.step({})).observation["turn"] == 1
    assert attempts == 1


OPTIONS = ConnectionOptions(max_message_bytes=2**20)


async def test_a_closed_client_leaves_no_socket_to_the_garbage_collector(tmp_path: Path) -> None:
    gc.disable()
    try:
        async with serve_environments(path=tmp_path) as urls:
            port = int(urls["grpc"].rpartition(":")[2])
            async with proxied(port, random.Random(0)) as proxy, asyncio.timeout(20):
                client = GenericEnvClient(f"grpc://127.0.0.1:{proxy.port}")
                await client.reset()
                proxy.cut()
                await client.step({})
                await client.close()
                assert proxy.connections == 2
                while proxy.connected:
                    await asyncio.sleep(0.01)
    finally:
        gc.enable()


async def test_nor_does_a_connection_on_a_thread_of_its_own(tmp_path: Path) -> None:
    gc.disable()
    try:
        async with serve_environments(path=tmp_path) as urls:
            port = int(urls["grpc"].rpartition(":")[2])
            async with proxied(port, random.Random(0)) as proxy, asyncio.timeout(20):
                target = parse_url(f"grpc://127.0.0.1:{proxy.port}")
                for _ in range(5):
                    dialled = await dial(target, OPTIONS, 20, apart=True)
                    assert dialled.link is not None
                    await dialled.link.close()
                while proxy.connected:
                    await asyncio.sleep(0.01)
    finally:
        gc.enable()
