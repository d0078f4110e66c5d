"""Whatever is cut while sessions move to a second connection, each step is done once."""

from __future__ import annotations

from collections import Counter

import pytest

from openenv_grpc.client import connection, connections, moving
from openenv_grpc.client.crossing import Landing
from openenv_grpc.client.link import Link
from openenv_grpc.client.moving import Moving
from tests.exactly_once.conftest import Served
from tests.exactly_once.test_cuts import run_through


@pytest.fixture(autouse=True)
def no_shared_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has outcomes go over connections: no session outgrows its own by what lies in memory."""
    monkeypatch.setenv("OPENENV_GRPC_SHARED_MEMORY", "0")


@pytest.fixture
def landings(monkeypatch: pytest.MonkeyPatch) -> Counter[Landing]:
    """Has every outcome be a large one, moves tried at once, and counts what became of them."""
    monkeypatch.setattr(connection, "LARGE_BYTES", 1)
    monkeypatch.setattr(Link, "has_small", True)
    monkeypatch.setattr(moving, "AGAIN_S", 0.2)  # more than an `attach` takes to arrive
    monkeypatch.setattr(connections, "AGAIN_S", 0)
    counted: Counter[Landing] = Counter()
    land = Moving._land

    def count(mover: Moving, landing: Landing) -> None:
        counted[landing] += 1
        land(mover, landing)

    monkeypatch.setattr(Moving, "_land", count)
    return counted


@pytest.mark.usefixtures("quick")
async def test_hundreds_of_cuts_around_moves_lose_no_step_and_double_none(
    served: Served, landings: Counter[Landing]
) -> None:
    await run_through(served, cuts=500, limit_s=10)
    assert served.proxy.cuts >= 50
    assert landings[Landing.ATTACHED] > 0
    assert landings[Landing.DOUBTFUL] > 0


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("quick")
async def test_thousands_of_cuts_around_moves_lose_no_step_and_double_none(
    served: Served, landings: Counter[Landing]
) -> None:
    await run_through(served, cuts=5000, limit_s=240)
    assert served.proxy.cuts >= 2000
    assert landings[Landing.DOUBTFUL] > 20
