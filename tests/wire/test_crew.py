from __future__ import annotations

import pytest

from openenv_grpc.crew import Crew, WorkerAddress
from openenv_grpc.v1 import catalog_pb2
from openenv_grpc.wire.crew import fill_own_worker, fill_workers, read_workers

CREW = Crew(
    server_id="s",
    worker=1,
    size=2,
    addresses=(
        WorkerAddress(
            grpc_port=1,
            http_port=2,
            unix_path="/a",
            http_unix_path="/b",
            public_url="https://h/0",
        ),
        WorkerAddress(
            grpc_port=3,
            http_port=4,
            unix_path="/a.1",
            http_unix_path="/b.1",
            public_url="https://h/1",
        ),
    ),
)


def test_workers_come_back_as_they_were() -> None:
    message = catalog_pb2.Workers()
    fill_workers(message, CREW)

    assert read_workers(message) == CREW


def test_nothing_is_told_where_there_is_one_process_or_not_all_listen() -> None:
    for crew in (None, Crew(server_id="s", worker=0, size=2)):
        message, own = catalog_pb2.Workers(), catalog_pb2.Worker()
        fill_workers(message, crew)
        fill_own_worker(own, crew)
        assert not message.ByteSize()
        assert not own.ByteSize()


def test_a_session_is_told_the_worker_where_it_lives() -> None:
    message = catalog_pb2.Worker()
    fill_own_worker(message, CREW)

    assert (message.number, message.grpc_port, message.unix_path) == (1, 3, "/a.1")


@pytest.mark.parametrize(
    ("own", "numbers"),
    [(0, ()), (0, (0,)), (2, (0, 1)), (-1, (0, 1)), (0, (1, 0)), (0, (0, 0))],
    ids=["none", "one", "no such own", "negative own", "out of order", "twice"],
)
def test_what_makes_no_sense_counts_as_one_process(own: int, numbers: tuple[int, ...]) -> None:
    workers = [catalog_pb2.Worker(number=number) for number in numbers]

    assert read_workers(catalog_pb2.Workers(own_number=own, workers=workers)) is None
