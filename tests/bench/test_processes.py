"""Servers and loads are real processes: started, measured, told of, and ended."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from bench.fleet import Fleet
from bench.grids import rival
from bench.jobs import Job
from bench.proc import processor_s, resident_kib
from bench.processes import RIVALS, BenchError, loading, serving
from bench.rows import Row
from bench.scenarios import ours
from bench.sides import Door, ServerSpec, Side

PING_PONG = ServerSpec(kind="ping_pong")


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with Fleet() as fleet:
        yield fleet


@pytest.fixture
def rivals() -> None:
    """Needs the environment that has dm_env_rpc."""
    if not os.path.exists(RIVALS):
        missing = f"{RIVALS} is missing: run `make .stamps/rivals`"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)


def row(side: Side, **settings: object) -> Row:
    return Row(name="row", sides=(side,), **settings)  # type: ignore[arg-type]  # as each test says


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("door", [Door.GRPC, Door.UNIX, Door.HTTP])
def test_our_server_is_measured_by_every_door(fleet: Fleet, door: Door) -> None:
    side = ours(door=door)
    found = fleet.measure(row(side, sessions=2), side, 0.1)
    assert found["steps_per_s"] > 0
    assert found["p99_us"] >= found["p50_us"] > 0
    assert found["client_us_per_step"] >= 0


def test_one_fleet_measures_all_modes(fleet: Fleet) -> None:
    plain, mixed, arrays = ours(), ours("Mixed"), ours("SharedArrays", mode="vector")
    assert fleet.measure(row(plain, mode="open", sessions=3), plain, 0.1)["opens_per_s"] > 0
    idle = fleet.measure(row(plain, mode="idle", sessions=3, fresh=True), plain, 0.1)
    assert idle["closes_per_s"] > 0
    beside = row(mixed, mode="mixed", sessions=2, pause_s=0.01)
    assert fleet.measure(beside, mixed, 0.2)["p99_ms"] > 0
    assert fleet.measure(row(arrays, action="array", sessions=2), arrays, 0.1)["steps_per_s"] > 0
    assert fleet.measure(row(plain, mode="start"), plain, 0.1)["start_s"] > 0


def test_bare_sockets_are_measured_with_small_and_large_answers(fleet: Fleet) -> None:
    side = rival("ping_pong")
    assert fleet.measure(row(side, sessions=2), side, 0.1)["steps_per_s"] > 0
    assert fleet.measure(row(side, size_bytes=2**20), side, 0.1)["mib_per_s"] > 0


@pytest.mark.usefixtures("rivals")
@pytest.mark.parametrize("environment", ["Tiny", "Frame"])
def test_dm_env_rpc_is_measured(fleet: Fleet, environment: str) -> None:
    side = rival("dm_env_rpc", environment)
    assert fleet.measure(row(side, sessions=2), side, 0.1)["steps_per_s"] > 0


def test_a_server_that_does_not_start_is_told_of_in_its_own_words() -> None:
    with (
        pytest.raises(BenchError, match=r"did not start: (.|\n)*NoSuchClass"),
        serving(ServerSpec(environment="NoSuchClass")),
    ):
        pass


def test_a_job_that_fails_is_told_of_and_its_processes_are_replaced(fleet: Fleet) -> None:
    side = rival("ping_pong")
    with pytest.raises(BenchError, match="KeyError"):
        fleet.measure(row(side, mode="no such mode"), side, 0.1)
    assert fleet.measure(row(side), side, 0.1)["steps_per_s"] > 0


def test_a_load_answers_one_job_after_the_other() -> None:
    with serving(PING_PONG) as server, loading("ping_pong") as load:
        job = Job(
            mode="step", url=server.url(Door.HTTP), server=server.pid, seconds=0.1, warm_up_s=0
        )
        first, second = load.measure(job), load.measure(job)
    assert first.keys() == second.keys()


def test_processes_end_with_their_block() -> None:
    with serving(PING_PONG) as server:
        assert is_alive(server.pid)
    assert not is_alive(server.pid)


def test_servers_end_when_no_row_needs_them(fleet: Fleet) -> None:
    side = rival("ping_pong")
    fleet.measure(row(side), side, 0.1)
    pid = fleet.server(side).pid
    fleet.keep([row(side)])
    assert is_alive(pid)
    fleet.keep([row(ours())])
    assert not is_alive(pid)


def test_what_a_row_needs_is_started_before_it_is_measured(fleet: Fleet) -> None:
    side = rival("ping_pong")
    fleet.prepare(row(side))
    server = fleet.server(side)
    assert is_alive(server.pid)
    fleet.measure(row(side), side, 0.1)
    assert fleet.server(side) == server


def test_what_does_not_start_is_told_of_when_it_is_measured(fleet: Fleet) -> None:
    side = ours("NoSuchClass")
    fleet.prepare(row(side))
    with pytest.raises(BenchError, match="NoSuchClass"):
        fleet.measure(row(side), side, 0.1)


def test_a_process_has_memory_and_has_used_time_with_its_children() -> None:
    pid = os.getpid()
    assert resident_kib(pid) > 1024
    before = processor_s(pid)
    while processor_s(pid) < before + 0.05:
        sum(range(10_000))
