"""Snapshots and forks are made once, whatever becomes of the connection."""

from __future__ import annotations

import asyncio
import contextlib
import time

import pytest

from openenv_grpc.client import EnvClient
from openenv_grpc.errors import UnavailableError
from openenv_grpc.types import State
from tests.exactly_once.conftest import Served
from tests.exactly_once.counting import Branching, Tally, Token
from tests.exactly_once.test_lost_answers import until

LIMIT_S = 10


class BranchingClient(EnvClient[Token, Tally, State]):
    pass


def made(served: Served, snapshot_id: str = "") -> BranchingClient:
    return BranchingClient(served.url, environment="Branching", snapshot_id=snapshot_id)


async def test_the_answer_to_a_snapshot(served: Served) -> None:
    async with made(served) as client, asyncio.timeout(LIMIT_S):
        await client.reset()
        await client.step(Token(token="before"))
        served.proxy.deafen()
        saving = asyncio.create_task(client.snapshot())
        await until(lambda: served.host.metrics.snapshots == 1)
        served.proxy.cut()
        snapshot_id = await saving
        assert (Branching.saved, served.host.metrics.snapshots) == (1, 1)
        async with made(served, snapshot_id) as fork:
            tally = (await fork.step(Token(token="after"))).observation
            assert (tally.token, tally.steps) == ("after", 2)


async def test_the_answer_to_a_fork(served: Served) -> None:
    async with made(served) as client, asyncio.timeout(LIMIT_S):
        await client.reset()
        await client.step(Token(token="before"))
        fork = made(served, await client.snapshot())
        served.proxy.deafen()
        forking = asyncio.create_task(fork.connect())
        await until(lambda: len(served.host.sessions()) == 2)
        await until(lambda: Branching.restored == 1)
        served.proxy.cut()
        await forking
        assert (len(served.host.sessions()), Branching.restored) == (2, 1)
        assert (await fork.step(Token(token="fork"))).observation.steps == 2
        assert (await client.step(Token(token="client"))).observation.steps == 2
        assert served.proxy.connections == 2
        await fork.close()


async def test_a_fork_that_never_arrived_is_made_later(served: Served) -> None:
    async with made(served) as client, asyncio.timeout(LIMIT_S):
        await client.reset()
        await client.step(Token(token="before"))
        fork = made(served, await client.snapshot())
        forking = asyncio.create_task(fork.connect())
        await asyncio.sleep(0)
        served.proxy.cut()
        await forking
        assert Branching.restored == 1
        assert (await fork.step(Token(token="fork"))).observation.steps == 2
        await fork.close()


async def grow(served: Served, *, number: int, cuts: int, end: float) -> None:
    """Grows trees: each branch has the steps of those before it, and its own."""
    while served.proxy.cuts < cuts and time.monotonic() < end:
        client = made(served)
        while True:  # a first connection that is cut at once is not the client's to mend
            with contextlib.suppress(UnavailableError):
                await client.connect()
                break
            await asyncio.sleep(0.001)
        await client.reset()
        for depth in range(1, 4):
            children = await client.group(2)
            for child in children:
                token = f"{number} {id(child)} {depth}"
                tally = (await child.step(Token(token=token))).observation
                assert (tally.token, tally.steps, tally.resets) == (token, depth, 1)
            left, right = children
            await left.close()
            assert (await right.snapshot()) != (await right.snapshot())
            assert (await client.step(Token())).observation.steps == depth
        await client.close()


@pytest.mark.usefixtures("quick")
async def test_trees_grow_under_hundreds_of_cuts(served: Served) -> None:
    served.proxy.chance = 0.05
    end = time.monotonic() + 8
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        for number in range(3):
            tasks.create_task(grow(served, number=number, cuts=200, end=end))
    assert served.proxy.cuts >= 10
    served.proxy.chance = 0
    assert served.host.sessions() == []
    # Each group took one snapshot, and the last of each depth two more.
    assert Branching.saved == served.host.metrics.snapshots + served.host.metrics.snapshots_dropped
    assert 3 * Branching.restored == 2 * Branching.saved
