from __future__ import annotations

import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openenv_grpc.crew import MAX_WORKERS, Crew, WorkerAddress, new_id, worker_of
from openenv_grpc.errors import ConfigurationError


def crew(worker: int, size: int) -> Crew:
    addresses = tuple(WorkerAddress(grpc_port=50051 + number) for number in range(size))
    return Crew(server_id="s", worker=worker, size=size, addresses=addresses)


@settings(deadline=None)
@given(size=st.integers(2, 16), more=st.integers(0, 1_000))
def test_shares_are_even_and_all_that_there_is(size: int, more: int) -> None:
    shares = [crew(worker, size).share(size + more) for worker in range(size)]

    assert sum(shares) == size + more
    assert shares == sorted(shares, reverse=True)
    assert shares[0] - shares[-1] <= 1


def test_what_is_not_one_for_each_cannot_be_shared() -> None:
    with pytest.raises(ConfigurationError, match="3 sessions are too few for 4 workers"):
        crew(0, 4).share(3)


@settings(deadline=None)
@given(worker=st.integers(0, MAX_WORKERS - 1))
def test_an_id_tells_the_worker_that_made_it(worker: int) -> None:
    made = new_id(crew(worker, MAX_WORKERS))

    assert worker_of(made) == worker
    assert uuid.UUID(made).variant == uuid.RFC_4122
    assert made != new_id(crew(worker, MAX_WORKERS))


@pytest.mark.parametrize("an_id", [new_id(None), "", "no uuid", str(uuid.uuid4())])
def test_other_ids_tell_of_no_worker(an_id: str) -> None:
    assert worker_of(an_id) is None


def test_only_ids_of_other_workers_have_an_address_elsewhere() -> None:
    first, second = crew(0, 2), crew(1, 2)

    assert first.address_of(new_id(second)) == (1, WorkerAddress(grpc_port=50052))
    assert first.address_of(new_id(first)) is None
    assert first.address_of(new_id(None)) is None
    assert first.address_of(new_id(crew(7, 9))) is None
