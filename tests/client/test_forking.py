"""Clients that go on from where another is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from openenv_grpc import Action, GenericEnvClient, MCPToolClient
from openenv_grpc.client.catalog import describe
from openenv_grpc.engine import EnvironmentDefinition
from openenv_grpc.errors import (
    NotSupportedError,
    SessionCapacityError,
    SnapshotNotFoundError,
)
from openenv_grpc.types import Observation
from tests.client.conftest import serve_environments
from tests.engine.snapshot_environments import Drawing, Purse
from tests.environments import Count, Countdown, Counted

DRAWING = EnvironmentDefinition(
    factory=Drawing, action_type=Count, observation_type=Counted, max_sessions=9
)
PURSE = EnvironmentDefinition(factory=Purse, action_type=Action, observation_type=Observation)
PLAIN = EnvironmentDefinition(factory=Countdown, action_type=Count, observation_type=Counted)


@pytest.fixture(params=["grpc", "ws"])
async def url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    async with serve_environments(DRAWING, PURSE, PLAIN, path=tmp_path, max_snapshots=3) as urls:
        yield urls[request.param]


async def seen(client: Any) -> tuple[int, str]:
    observation = (await client.step({})).observation
    return observation["left"], observation["text"]


async def test_a_fork_goes_its_own_way(url: str) -> None:
    async with GenericEnvClient(url) as client:
        await client.reset(seed=3, start=9)
        await client.step({})
        fork = await client.fork()
        assert (await fork.step({"by": 5})).observation["left"] == 3
        assert (await client.step({})).observation["left"] == 7
        assert (await fork.state())["step_count"] == 2


async def test_a_group_starts_alike(url: str) -> None:
    async with GenericEnvClient(url) as client:
        await client.reset(seed=3, start=20)
        group = await client.group(8)
        assert len({await seen(member) for member in group}) == 1


async def test_a_snapshot_is_for_clients_that_come_later(url: str) -> None:
    async with GenericEnvClient(url) as client:
        await client.reset(seed=3, start=9)
        snapshot_id = await client.snapshot()
        then = await seen(client)
    async with GenericEnvClient(url, snapshot_id=snapshot_id) as later:
        assert await seen(later) == then
        await later.disconnect()
        assert await seen(later) == then
        assert await seen(await later.new_session()) == then


async def test_tools_fork_too(url: str) -> None:
    async with MCPToolClient(url, environment="Purse") as client:
        await client.reset()
        await client.call_tool("earn", coins=2)
        fork = await client.fork()
        assert await fork.call_tool("earn", coins=1) == "3 coins"
        assert await client.call_tool("earn", coins=5) == "7 coins"


async def test_a_client_closes_its_forks_and_a_closed_fork_is_let_go(url: str) -> None:
    async with GenericEnvClient(url) as client:
        await client.reset()
        first, second = await client.group(2)
        grandchild = await first.fork()
        await second.close()
        assert list(client._children.values()) == [first]
        await client.close()
        assert (first._session, grandchild._session) == (None, None)


async def test_a_group_that_finds_no_room_leaves_none_open(url: str) -> None:
    async with GenericEnvClient(url) as client:
        await client.reset()
        with pytest.raises(SessionCapacityError):
            await client.group(9)
        assert client._children == {}
        assert len(await client.group(8)) == 8


async def test_a_snapshot_that_had_to_make_room_is_told_so(url: str) -> None:
    async with GenericEnvClient(url) as client:
        await client.reset()
        snapshot_ids = [await client.snapshot() for _ in range(4)]
        with pytest.raises(SnapshotNotFoundError, match="made room"):
            await GenericEnvClient(url, snapshot_id=snapshot_ids[0]).connect()
        async with GenericEnvClient(url, snapshot_id=snapshot_ids[1]):
            pass


async def test_what_cannot_be_saved_says_so_and_goes_on(url: str) -> None:
    async with GenericEnvClient(url, environment="Countdown") as client:
        await client.reset(start=9)
        for call in (client.snapshot, client.fork):
            with pytest.raises(NotSupportedError, match="SNAPSHOT_FIELDS"):
                await call()
        assert (await client.step({})).observation["left"] == 8


async def test_the_catalogue_says_what_can_be_forked(tmp_path: Path) -> None:
    async with serve_environments(DRAWING, PLAIN, path=tmp_path) as urls:
        drawing, plain = await describe(urls["grpc"])
    assert drawing.capabilities["snapshots"]
    assert not plain.capabilities.get("snapshots")
