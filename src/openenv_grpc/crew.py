"""The worker processes of one server: how many, where each is reached, and whose an id is."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from openenv_grpc import ids
from openenv_grpc.errors import ConfigurationError

MAX_WORKERS = 256

_VERSION = 8  # of a UUID whose bits are the maker's own
_WORKER_BITS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerAddress:
    """Where one worker is reached, on the machine by whose name the server is."""

    grpc_port: int = 0
    """0 where it has no such door."""
    http_port: int = 0
    """0 where it has no such door."""
    unix_path: str = ""
    """Of its gRPC socket; empty where it has none."""
    http_unix_path: str = ""
    """Of its socket for HTTP; empty where it has none."""
    public_url: str = ""
    """Where its HTTP door is reached from elsewhere; empty if that is not said."""


@dataclass(slots=True, kw_only=True)
class Crew:
    """The workers of one server, as one of them knows them."""

    server_id: str
    """The same in all workers of a server, and in no other server's."""
    worker: int
    """The number of the worker that knows this, counted from 0."""
    size: int
    """How many workers there are."""
    addresses: tuple[WorkerAddress, ...] = ()
    """Where they are, by their numbers. Empty until all of them listen."""

    def share(self, limit: int) -> int:
        """Returns how many of `limit` sessions are this worker's: the first have those left over.

        Raises:
            ConfigurationError: there is not one for each worker.
        """
        if limit < self.size:
            raise ConfigurationError(
                f"{limit} sessions are too few for {self.size} workers, which share them; serve "
                "with a higher --max-sessions, or fewer --workers"
            )
        return limit // self.size + (self.worker < limit % self.size)

    def address_of(self, an_id: str) -> tuple[int, WorkerAddress] | None:
        """Returns the number and the address of another worker that made an id, if one did."""
        worker = worker_of(an_id)
        if worker is None or worker == self.worker or worker >= len(self.addresses):
            return None
        return worker, self.addresses[worker]


def new_id(crew: Crew | None) -> str:
    """Makes a UUID that nobody can guess; that of a worker tells by its last digits whose it is."""
    if crew is None:
        return ids.random_uuid()
    number = ids.random_bits() & ~(0xF << 76 | 0x3 << 62 | (2**_WORKER_BITS - 1))
    return ids.written(number | _VERSION << 76 | 0x2 << 62 | crew.worker)


def worker_of(an_id: str) -> int | None:
    """Returns the number of the worker that made an id; `None` if none did."""
    try:
        made = uuid.UUID(an_id)
    except ValueError:
        return None
    return made.int & (2**_WORKER_BITS - 1) if made.version == _VERSION else None
