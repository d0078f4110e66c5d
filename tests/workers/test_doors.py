from __future__ import annotations

from pathlib import Path

import pytest

from openenv_grpc.errors import ConfigurationError
from openenv_grpc.options import ServerOptions
from openenv_grpc.workers.doors import WorkerDoors, plan_doors


def test_each_worker_has_the_next_ports_a_socket_of_its_number_and_its_own_public_url() -> None:
    options = ServerOptions(
        grpc_port=50051,
        http_port=8000,
        unix=Path("a/b.sock"),
        http_unix=Path("h.sock"),
        public_url="https://h/{worker}/x",
    )

    first, second = plan_doors(options, 2)

    assert (first.grpc_port, first.http_port, first.unix) == (50051, 8000, Path("a/b.sock"))
    assert (second.grpc_port, second.http_port, second.unix) == (50052, 8001, Path("a/b.sock.1"))
    assert (first.http_unix, second.http_unix) == (Path("h.sock"), Path("h.sock.1"))
    assert [first.public_url, second.public_url] == ["https://h/0/x", "https://h/1/x"]


def test_doors_that_are_not_there_and_free_ports_are_the_same_for_all() -> None:
    for plan in plan_doors(ServerOptions(grpc_port=0, http_port=None), 3):
        assert (plan.grpc_port, plan.http_port, plan.unix) == (0, None, None)
        assert plan.options()["public_url"] is None


def test_a_worker_that_comes_after_another_has_its_ports() -> None:
    [plan, _] = plan_doors(ServerOptions(grpc_port=0, http_port=None), 2)

    kept = plan.kept(WorkerDoors(grpc="[::1]:4711", http=None, unix=None))

    assert (kept.grpc_port, kept.http_port) == (4711, None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (ServerOptions(grpc_port=8001, http_port=8000), "both would have 8001"),
        (ServerOptions(grpc_port=65534, http_port=None), "choose a lower --grpc-port"),
        (ServerOptions(grpc_port=1, http_port=None, public_url="https://h"), "has {worker} where"),
    ],
    ids=["ports that overlap", "ports past the last", "one public URL"],
)
def test_doors_that_would_be_the_same_are_refused(options: ServerOptions, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        plan_doors(options, 3)
