"""A served engine and a channel to it."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from openenv_grpc.engine import EnvironmentDefinition, SessionManager
from openenv_grpc.server import GrpcServer
from openenv_grpc.tools import CallToolAction, CallToolObservation
from openenv_grpc.types import Action, Observation
from tests.environments import (
    AsyncSlow,
    Count,
    Countdown,
    Counted,
    Described,
    Failing,
    Gates,
    Library,
    Lonely,
    NotBuilt,
    Slow,
    Tasks,
    Toolbox,
)


class SlowToBuild(Countdown):
    """Its constructor waits for its gates."""

    def __init__(self, gates: Gates) -> None:
        super().__init__()
        gates.entered.set()
        gates.leave.wait(10)


class OddTasks(Tasks):
    """Answers with the wrong kinds of values."""

    def list_splits(self) -> Any:
        return "train"

    def num_tasks(self, split: str) -> Any:
        return {"many": 1}


class ManyTasks(Tasks):
    """Gives a range of its tasks."""

    def num_tasks(self, split: str) -> int:
        return 250

    def get_task_range(
        self, split: str, start: int | None = None, stop: int | None = None
    ) -> list[Any]:
        return [{"id": number} for number in range(250)][start:stop]


@pytest.fixture
def gates() -> Gates:
    return Gates()


@pytest.fixture
async def host(gates: Gates) -> AsyncIterator[SessionManager]:
    factories = {
        "countdown": Countdown,
        "failing": Failing,
        "slow": functools.partial(Slow, gates),
        "async_slow": functools.partial(AsyncSlow, gates),
        "described": Described,
        "slow_to_build": functools.partial(SlowToBuild, gates),
        "tasks": Tasks,
        "odd_tasks": OddTasks,
        "many_tasks": ManyTasks,
        "not_built": NotBuilt,
    }
    definitions = [
        EnvironmentDefinition(
            factory=factory,
            action_type=Count,
            observation_type=Counted,
            name=name,
            max_sessions=120,
        )
        for name, factory in factories.items()
    ]
    definitions.append(
        EnvironmentDefinition(
            factory=Toolbox,
            action_type=CallToolAction,
            observation_type=CallToolObservation,
            name="toolbox",
        )
    )
    definitions.append(
        EnvironmentDefinition(
            factory=Library, action_type=Action, observation_type=Observation, name="library"
        )
    )
    definitions.append(
        EnvironmentDefinition(
            factory=Lonely, action_type=Count, observation_type=Counted, name="lonely"
        )
    )
    async with SessionManager(definitions) as manager:
        yield manager
        gates.leave.set()


@pytest.fixture
async def server(host: SessionManager) -> AsyncIterator[GrpcServer]:
    async with GrpcServer(host, stop_grace_s=0) as server:
        yield server


@pytest.fixture
async def channel(server: GrpcServer) -> AsyncIterator[grpc.aio.Channel]:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.ports[0]}") as channel:
        yield channel
