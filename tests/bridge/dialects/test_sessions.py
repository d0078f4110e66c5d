"""How long sessions of MCP clients live."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from openenv_bridge.mcp.pushes import Pushes, Wishes
from openenv_bridge.mcp.sessions import McpSessions
from openenv_grpc.access import Agent, Trainer
from openenv_grpc.engine import EngineSettings, SessionManager
from openenv_grpc.errors import SessionCapacityError, SessionNotFoundError
from tests.bridge.conftest import no_sessions
from tests.bridge.dialects.clients import COUNTDOWN, TOOLBOX


class Clock:
    """Time that a test lets pass, for sessions and engine."""

    def __init__(self) -> None:
        self.now = 0.0

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: object, *arguments: object) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(3600, lambda: None)


@dataclass
class World:
    manager: SessionManager
    sessions: McpSessions
    clock: Clock


@pytest.fixture
async def world() -> AsyncIterator[World]:
    clock = Clock()
    async with (
        SessionManager(
            [COUNTDOWN, TOOLBOX], EngineSettings(opens_per_minute=2), clock=clock
        ) as manager,
        manager.attach(peer="test") as attachment,
    ):
        yield World(manager, McpSessions(manager, attachment, clock=clock.time), clock)


async def test_a_session_that_idles_ends(world: World) -> None:
    session = await world.sessions.begin(world.manager.spec(), peer="test")
    world.clock.now = 10.0
    world.sessions.end_idle(20.0)
    assert world.sessions.find(session.id, Trainer()) is session
    world.clock.now = 31.0
    world.sessions.end_idle(20.0)
    with pytest.raises(SessionNotFoundError):
        world.sessions.find(session.id, Trainer())
    await no_sessions(world.manager)


async def test_a_session_with_an_open_stream_does_not_idle(world: World) -> None:
    session = await world.sessions.begin(world.manager.spec(), peer="test")
    session.streams += 1
    world.clock.now = 100.0
    world.sessions.end_idle(20.0)
    assert world.sessions.find(session.id, Trainer()) is session


async def test_a_session_whose_changes_somebody_listens_to_does_not_idle(world: World) -> None:
    session = await world.sessions.begin(world.manager.spec(), peer="test")
    with world.sessions.listening(session.port, Pushes(Wishes())):
        world.clock.now = 100.0
        world.sessions.end_idle(20.0)
    world.clock.now = 110.0
    world.sessions.end_idle(20.0)
    assert world.sessions.find(session.id, Trainer()) is session


async def test_a_trainers_session_outlives_that_of_its_agent(world: World) -> None:
    trainers = await world.sessions.begin(world.manager.spec(), peer="test")
    agents = world.sessions.join(trainers.port.id)
    world.clock.now = 15.0
    world.sessions.find(trainers.id, Trainer())
    world.clock.now = 31.0
    world.sessions.end_idle(20.0)
    with pytest.raises(SessionNotFoundError):
        world.sessions.find(agents.id, Agent(trainers.port.id))
    assert world.sessions.find(trainers.id, Trainer()) is trainers


async def test_what_joined_a_session_is_gone_with_it(world: World) -> None:
    trainers = await world.sessions.begin(world.manager.spec(), peer="test")
    agents = world.sessions.join(trainers.port.id)
    await world.sessions.end(trainers)
    for session in (trainers, agents):
        with pytest.raises(SessionNotFoundError):
            world.sessions.find(session.id, Trainer())


async def test_an_agent_finds_the_sessions_of_its_trainers_session_alone(world: World) -> None:
    session = await world.sessions.begin(world.manager.spec(), peer="test")
    assert world.sessions.find(session.id, Agent(session.port.id)) is session
    with pytest.raises(SessionNotFoundError):
        world.sessions.find(session.id, Agent("another"))


async def test_sessions_begin_as_often_as_their_peer_may_open_some(world: World) -> None:
    spec = world.manager.spec()
    for _ in range(2):
        await world.sessions.begin_unclaimed(spec, peer="10.0.0.1")
    with pytest.raises(SessionCapacityError, match="--opens-per-minute"):
        await world.sessions.begin_unclaimed(spec, peer="10.0.0.1")
    assert world.manager.metrics.opens_limited == 1
    assert len(world.manager.sessions()) == 2  # nobody's made room for it

    await world.sessions.begin_unclaimed(spec, peer="10.0.0.2")
    world.clock.now = 30.0
    await world.sessions.begin(spec, peer="10.0.0.1")
    assert [each.peer for each in world.manager.sessions()] == [
        "10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.1",
    ]  # fmt: skip


async def test_the_first_observation_is_found_by_the_session_of_whoever_began_it(
    world: World,
) -> None:
    spec = world.manager.spec()
    one, other = [await world.sessions.begin(spec, peer="test") for _ in range(2)]
    world.sessions.join(one.port.id)
    assert world.sessions.first(one.port.id) == one.first != ""
    await world.sessions.end(one)
    assert world.sessions.first(one.port.id) == world.sessions.first("none") == ""
    assert world.sessions.first(other.port.id) == other.first
