"""A server behind a proxy that cuts, by every door that carries `Connect`."""

from __future__ import annotations

import os
import random
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import pytest

from openenv_bridge import Bridge
from openenv_grpc.client import link
from openenv_grpc.engine import EngineSettings, EnvironmentDefinition, SessionManager
from openenv_grpc.server import GrpcServer
from openenv_grpc.types import Action, Observation
from tests.exactly_once.counting import Branching, Counting, CountingTools, Gate, Tally, Token
from tests.exactly_once.proxy import Proxy, proxied

SEED = "OPENENV_GRPC_TEST_SEED"
"""Variable with the seed of an earlier run."""


@dataclass(frozen=True)
class Served:
    """What a test acts on."""

    url: str
    """The proxy's."""
    proxy: Proxy
    host: SessionManager
    random: random.Random


@pytest.fixture
def source() -> random.Random:
    seed = int(os.environ.get(SEED) or random.SystemRandom().getrandbits(32))
    print(f"{SEED}={seed}")  # shown if the test fails
    return random.Random(seed)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate()
    monkeypatch.setattr(Counting, "gate", gate)
    monkeypatch.setattr(Branching, "saved", 0)
    monkeypatch.setattr(Branching, "restored", 0)
    yield gate
    gate.leave.set()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reconnects at once, so that there is time for many cuts."""
    monkeypatch.setattr(link, "FIRST_DELAY_S", 0.001)
    monkeypatch.setattr(link, "LAST_DELAY_S", 0.01)


@pytest.fixture
async def host(gate: Gate) -> AsyncIterator[SessionManager]:
    definitions = [
        EnvironmentDefinition(factory=Counting, action_type=Token, observation_type=Tally),
        EnvironmentDefinition(factory=Branching, action_type=Token, observation_type=Tally),
        EnvironmentDefinition(
            factory=CountingTools, action_type=Action, observation_type=Observation
        ),
    ]
    async with SessionManager(definitions, EngineSettings(stuck_grace_s=0.1)) as manager:
        yield manager
        gate.leave.set()


@pytest.fixture(params=["grpc", "ws"])
async def served(
    request: pytest.FixtureRequest, host: SessionManager, source: random.Random
) -> AsyncIterator[Served]:
    scheme: str = request.param
    async with GrpcServer(host, stop_grace_s=0.1) as server, Bridge(host) as bridge:
        port = server.ports[0] if scheme == "grpc" else bridge.port
        async with proxied(port, source) as proxy:
            yield Served(f"{scheme}://127.0.0.1:{proxy.port}", proxy, host, source)
