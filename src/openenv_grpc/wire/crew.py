"""The worker processes of a server, as messages carry them."""

from __future__ import annotations

from openenv_grpc.crew import Crew, WorkerAddress
from openenv_grpc.v1 import catalog_pb2


def fill_workers(message: catalog_pb2.Workers, crew: Crew | None) -> None:
    """Fills all of them, if there are several and it is known where they are."""
    if crew is None or not crew.addresses:
        return
    message.server_id = crew.server_id
    message.own_number = crew.worker
    for number in range(crew.size):
        _fill_worker(message.workers.add(), crew, number)


def fill_own_worker(message: catalog_pb2.Worker, crew: Crew | None) -> None:
    """Fills the one that answers, if there are several and it is known where they are."""
    if crew is not None and crew.addresses:
        message.SetInParent()
        _fill_worker(message, crew, crew.worker)


def _fill_worker(message: catalog_pb2.Worker, crew: Crew, number: int) -> None:
    address = crew.addresses[number]
    message.number = number
    message.grpc_port = address.grpc_port
    message.http_port = address.http_port
    message.unix_path = address.unix_path
    message.http_unix_path = address.http_unix_path
    message.public_uri = address.public_url


def read_workers(message: catalog_pb2.Workers) -> Crew | None:
    """Reads what `fill_workers` wrote; `None` where that was nothing, or makes no sense."""
    size = len(message.workers)
    numbers = [worker.number for worker in message.workers]
    if size < 2 or numbers != list(range(size)) or message.own_number not in range(size):
        return None
    addresses = (
        WorkerAddress(
            grpc_port=worker.grpc_port,
            http_port=worker.http_port,
            unix_path=worker.unix_path,
            http_unix_path=worker.http_unix_path,
            public_url=worker.public_uri,
        )
        for worker in message.workers
    )
    return Crew(
        server_id=message.server_id,
        worker=message.own_number,
        size=size,
        addresses=tuple(addresses),
    )
