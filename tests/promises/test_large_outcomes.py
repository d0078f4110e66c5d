"""Large answers of one session do not hold up small ones of another in the same client process."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from openenv_grpc.client import GenericEnvClient
from tests.served_process import start_server

LIMIT_S = 100
LARGE_BYTES = 10_000_000
STEPS = 100
PAUSE_S = 0.002


def connections_to(port: int) -> int:
    """Counts the sockets of this machine that are connected to one of its ports."""
    count = 0
    for table in ("tcp", "tcp6"):  # gRPC's sockets are of the latter, whatever the address
        for line in Path(f"/proc/net/{table}").read_text(encoding="ascii").splitlines()[1:]:
            _, _, far, state, *_ = line.split()
            count += far.endswith(f":{port:04X}") and state == "01"
    return count


async def median_ms(client: GenericEnvClient) -> float:
    """Returns how long a small step takes, for a caller that thinks in between."""
    took = []
    for _ in range(STEPS):
        begun = time.perf_counter()
        await client.step({})
        took.append(1000 * (time.perf_counter() - begun))
        await asyncio.sleep(PAUSE_S)
    return statistics.median(took)


async def step_for_ever(client: GenericEnvClient, enough: Callable[[], None]) -> None:
    """Asks for large answers, one after the other; says when the first few have come."""
    count = 0
    while True:
        result = await client.step({"size": LARGE_BYTES})
        assert len(result.observation["picture"]) == LARGE_BYTES
        count += 1
        if count == 5:
            enough()


@pytest.mark.parametrize("door", ["grpc", "ws"])
@pytest.mark.parametrize("shared_memory", [False, True])
async def test_large_answers_come_by_a_connection_of_their_own_or_by_none(
    tmp_path: Path, door: str, shared_memory: bool
) -> None:
    with start_server(tmp_path, "tests.promises.environments:Pictures") as served:
        address = served.address("grpc" if door == "grpc" else "http").removeprefix("http://")
        port = int(address.rpartition(":")[2])
        async with (
            asyncio.timeout(LIMIT_S),
            GenericEnvClient(f"{door}://{address}", shared_memory=shared_memory) as small,
            GenericEnvClient(f"{door}://{address}", shared_memory=shared_memory) as large,
        ):
            alone_ms = await median_ms(small)
            assert connections_to(port) == 1
            enough = asyncio.Event()
            stepping = asyncio.create_task(step_for_ever(large, enough.set))
            await enough.wait()
            beside_ms = await median_ms(small)
            assert connections_to(port) == (1 if shared_memory else 2)
            stepping.cancel()
            await asyncio.wait({stepping})
            way = "memory" if shared_memory else "connection"
            print(f"small steps, {door}, {way}: {alone_ms:.2f} ms alone, {beside_ms:.2f} beside")
