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
from openenv_grpc.errors import SessionNotFoundError
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
        SessionManager([COUNTDOWN, TOOLBOX], EngineSettings(), clock=clock) as manager,
        manager.attach(peer="test") as attachment,
    ):
        yield World(manager, McpSessions(manager, attachment, clock=clock.time), clock)


async def test_a_session_that_idles_ends(world: World) -> None:
    session = await world.sessions.begin(world.manager.spec())
    world.clock.now = 10.0
    world.sessions.end_idle(20.0)
    assert world.sessions.find(session.id, Trainer()) is session
    world.clock.now = 31.0
    world.sessions.end_idle(20.0)
    with pytest.raises(SessionNotFoundError):
        world.sessions.find(session.id, Trainer())
    await no_sessions(world.manager)


async def test_a_session_with_an_open_stream_does_not_idle(world: World) -> None:
    session = await world.sessions.begin(world.manager.spec())
    session.streams += 1
    world.clock.now = 100.0
    world.sessions.end_idle(20.0)
    assert world.sessions.find(session.id, Trainer()) is session


async def test_a_session_whose_changes_somebody_listens_to_does_not_idle(world: World) -> None:
    session = await world.sessions.begin(world.manager.spec())
    with world.sessions.listening(session.port, Pushes(Wishes())):
        world.clock.now = 100.0
        world.sessions.end_idle(20.0)
    world.clock.now = 110.0
    world.sessions.end_idle(20.0)
    assert world.sessions.find(session.id, Trainer()) is session


async def test_a_trainers_session_outlives_that_of_its_agent(world: World) -> None:
    trainers = await world.sessions.begin(world.manager.spec())
    agents = world.sessions.join(trainers.port.id)
    world.clock.now = 15.0
    world.sessions.find(trainers.id, Trainer())
    world.clock.now = 31.0
    world.sessions.end_idle(20.0)
    with pytest.raises(SessionNotFoundError):
        world.sessions.find(agents.id, Agent(trainers.port.id))
    assert world.sessions.find(trainers.id, Trainer()) is trainers


async def test_what_joined_a_session_is_gone_with_it(world: World) -> None:
    trainers = await world.sessions.begin(world.manager.spec())
    agents = world.sessions.join(trainers.port.id)
    await world.sessions.end(trainers)
    for session in (trainers, agents):
        with pytest.raises(SessionNotFoundError):
            world.sessions.find(session.id, Trainer())


async def test_an_agent_finds_the_sessions_of_its_trainers_session_alone(world: World) -> None:
    session = await world.sessions.begin(world.manager.spec())
    assert world.sessions.find(session.id, Agent(session.port.id)) is session
    with pytest.raises(SessionNotFoundError):
        world.sessions.find(session.id, Agent("another"))
