"""Servers for the client's tests: real ones, in this process, by every door."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from openenv_bridge import Bridge
from openenv_grpc import Action, Observation
from openenv_grpc.engine import EngineSettings, EnvironmentDefinition, SessionManager
from openenv_grpc.server import GrpcServer
from tests.client.environments import (
    GATES,
    Gate,
    GatedEnvironment,
    ToolEnvironment,
    TurnAction,
    TurnEnvironment,
    TurnObservation,
    TurnState,
)

Serve = Callable[..., AbstractAsyncContextManager[dict[str, str]]]

TURNS = EnvironmentDefinition(
    factory=TurnEnvironment,
    action_type=TurnAction,
    observation_type=TurnObservation,
    state_type=TurnState,
)
GATED = EnvironmentDefinition(
    factory=GatedEnvironment, action_type=TurnAction, observation_type=TurnObservation
)
TOOLS = EnvironmentDefinition(
    factory=ToolEnvironment, action_type=Action, observation_type=Observation
)


@asynccontextmanager
async def serve_environments(
    *definitions: EnvironmentDefinition, path: Path, **settings: Any
) -> AsyncIterator[dict[str, str]]:
    """Serves environments and gives a base URL for each door."""
    unix = f"unix:{path / 'server.sock'}"
    async with (
        SessionManager(definitions or (TURNS, TOOLS, GATED), EngineSettings(**settings)) as host,
        GrpcServer(host, addresses=("127.0.0.1:0", unix), stop_grace_s=0.1) as server,
        Bridge(host) as bridge,
    ):
        yield {
            "grpc": f"grpc://127.0.0.1:{server.ports[0]}",
            "unix": unix,
            "ws": f"ws://127.0.0.1:{bridge.port}",
            "http": f"http://127.0.0.1:{bridge.port}",
        }


@pytest.fixture(params=["grpc", "ws"])
async def url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """The base URL of a server, by gRPC and by WebSocket."""
    async with serve_environments(path=tmp_path) as urls:
        yield urls[request.param]


@pytest.fixture
def gate(request: pytest.FixtureRequest) -> Iterator[Gate]:
    """A gate that holds the steps named after the test, opened at the end whatever happens."""
    name = request.node.name
    GATES[name] = gate = Gate(name)
    yield gate
    gate.opened.set()
    del GATES[name]
