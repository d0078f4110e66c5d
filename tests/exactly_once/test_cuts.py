"""Whatever is cut, each step is done once, and its answer is its own."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time

import pytest

from openenv_grpc.client import EnvClient, MCPToolClient
from openenv_grpc.errors import UnavailableError
from openenv_grpc.types import State
from tests.exactly_once.conftest import Served
from tests.exactly_once.counting import Counting, Tally, Token

tokens = itertools.count(1)


class CountingClient(EnvClient[Token, Tally, State]):
    pass


async def connected(served: Served, *, link: int = 0) -> CountingClient:
    """Opens a session. A first connection that is cut at once is not the client's to mend."""
    client = CountingClient(served.url, headers={"x-link": str(link)}, environment="Counting")
    while True:
        with contextlib.suppress(UnavailableError):
            return await client.connect()
        await asyncio.sleep(0.001)


async def live(served: Served, *, link: int) -> None:
    """Lives through one session, from its opening to its close, and counts along."""
    source = served.random
    client = await connected(served, link=link)
    first = (await client.reset()).observation
    assert (first.steps, first.resets) == (0, 1)
    asked = 0
    for _ in range(source.randrange(1, 8)):
        mine = [f"token {next(tokens)}" for _ in range(source.randrange(1, 4))]
        results = await asyncio.gather(*(client.step(Token(token=token)) for token in mine))
        for token, result in zip(mine, results, strict=True):
            asked += 1
            tally = result.observation
            assert (tally.token, tally.steps) == (token, asked)
            assert (tally.instance, tally.resets) == (first.instance, 1)
        if source.random() < 0.2:
            assert (await client.state()).step_count == asked
    await client.close()
    assert Counting.closed.count((first.instance, asked)) == 1


async def live_until_cut(served: Served, *, link: int, cuts: int, end: float) -> None:
    while served.proxy.cuts < cuts and time.monotonic() < end:
        await live(served, link=link)


async def run_through(served: Served, *, cuts: int, limit_s: float) -> None:
    """Has sessions live, several on each connection, until there have been enough cuts."""
    end = time.monotonic() + limit_s
    served.proxy.chance = 0.08
    async with asyncio.timeout(limit_s + 60), asyncio.TaskGroup() as tasks:
        for number in range(9):
            tasks.create_task(live_until_cut(served, link=number // 3, cuts=cuts, end=end))
    served.proxy.chance = 0
    assert served.host.sessions() == []
    left = [task.get_name() for task in asyncio.all_tasks()]
    assert [name for name in left if name.startswith("openenv-grpc")] == []


@pytest.mark.usefixtures("quick")
async def test_hundreds_of_cuts_lose_no_step_and_double_none(served: Served) -> None:
    await run_through(served, cuts=500, limit_s=10)
    assert served.proxy.cuts >= 50


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("quick")
async def test_thousands_of_cuts_lose_no_step_and_double_none(served: Served) -> None:
    await run_through(served, cuts=5000, limit_s=240)
    assert served.proxy.cuts >= 2000


@pytest.mark.usefixtures("quick")
async def test_a_tool_is_called_once_whatever_is_cut(served: Served) -> None:
    async with MCPToolClient(served.url, environment="CountingTools") as client:
        served.proxy.chance = 0.1
        for number in range(1, 60):
            assert await client.call_tool("count", token=f"t{number}") == f"{number} t{number}"
        served.proxy.chance = 0
    assert served.proxy.cuts > 5
