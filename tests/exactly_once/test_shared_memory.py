"""Whatever is cut, each step is done once and its answer is its own, in shared memory too."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest

from openenv_bridge import Bridge
from openenv_grpc.client import GenericEnvClient
from openenv_grpc.engine import SessionManager
from openenv_grpc.server import GrpcServer
from tests.exactly_once.conftest import Served
from tests.exactly_once.proxy import proxied
from tests.framed import FRAMES, frame

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is shared on Linux alone")


@pytest.fixture(params=["grpc", "ws"])
async def framed(request: pytest.FixtureRequest, source: random.Random) -> AsyncIterator[Served]:
    scheme: str = request.param
    async with (
        SessionManager([FRAMES]) as host,
        GrpcServer(host, stop_grace_s=0.1) as server,
        Bridge(host) as bridge,
    ):
        port = server.ports[0] if scheme == "grpc" else bridge.port
        async with proxied(port, source) as proxy:
            yield Served(f"{scheme}://127.0.0.1:{proxy.port}", proxy, host, source)


async def check(client: GenericEnvClient, *, first: int, size: int) -> int:
    """Takes a step with a frame each way; returns how many steps the environment has counted."""
    sent = frame(first, size)
    seen: dict[str, Any] = (
        await client.step({"size": size, "first": first, "sent": sent})
    ).observation
    assert np.array_equal(seen["frame"], frame(first, size))
    assert seen["received"] == sent.sum(dtype=np.int64)
    steps: int = seen["steps"]
    return steps


async def live(client: GenericEnvClient, framed: Served, *, cuts: int) -> None:
    asked = 0
    while framed.proxy.cuts < cuts:
        at_once = framed.random.randrange(1, 4)
        sizes = [framed.random.choice((10, 70_000, 300_000)) for _ in range(at_once)]
        steps = await asyncio.gather(
            *(check(client, first=asked + n, size=size) for n, size in enumerate(sizes))
        )
        assert steps == list(range(asked + 1, asked + 1 + at_once))
        asked += at_once


@pytest.mark.usefixtures("quick")
async def test_cuts_lose_no_frame_and_mix_none_up(framed: Served) -> None:
    clients = [GenericEnvClient(framed.url) for _ in range(4)]
    async with asyncio.timeout(100):
        for client in clients:
            await client.reset()
        framed.proxy.chance = 0.05
        async with asyncio.TaskGroup() as tasks:
            for client in clients:
                tasks.create_task(live(client, framed, cuts=40))
        framed.proxy.chance = 0
        for client in clients:
            await check(client, first=3, size=300_000)
            assert client.shares_memory
            await client.close()


@pytest.mark.usefixtures("quick")
async def test_an_answer_that_was_lost_is_put_into_the_new_memory(framed: Served) -> None:
    async with asyncio.timeout(60), GenericEnvClient(framed.url) as client:
        await client.reset()
        for number in range(1, 6):
            framed.proxy.deafen()
            step = asyncio.create_task(check(client, first=number, size=300_000))
            while framed.host.sessions()[0].step_count < number:
                await asyncio.sleep(0.001)
            framed.proxy.cut()
            assert await step == number
            assert client.shares_memory
