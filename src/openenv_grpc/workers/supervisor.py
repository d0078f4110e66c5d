"""Who starts the workers of a server, and ends with them."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress

from openenv_grpc.crew import Crew, WorkerAddress
from openenv_grpc.errors import ConfigurationError, InternalError
from openenv_grpc.stopping import stopping_on_signals
from openenv_grpc.workers.doors import WorkerDoors, plan_doors
from openenv_grpc.workers.keeping import Worker
from openenv_grpc.workers.setup import Served

OnReady = Callable[[Sequence[WorkerDoors]], None]
"""Is told where the workers listen, by their numbers."""


class Supervisor:
    """The workers of one server. Implements `Team`."""

    def __init__(self, served: Served, size: int, on_ready: OnReady) -> None:
        """Describes them. Raises `ConfigurationError` if they cannot have doors of their own."""
        self._server_id = secrets.token_hex(16)
        self._on_ready: OnReady | None = on_ready
        self._workers = [
            Worker(self, served, number, plan)
            for number, plan in enumerate(plan_doors(served.options, size))
        ]
        self._ending = asyncio.Event()

    async def run(self) -> None:
        """Runs until SIGTERM, SIGINT or a client has ended all workers.

        Raises:
            ConfigurationError: a worker cannot serve what it is told to.
            InternalError: one ends again and again.
        """
        with stopping_on_signals(drain=self.drain, stop=self.stop):
            try:
                async with asyncio.TaskGroup() as tasks:
                    for worker in self._workers:
                        tasks.create_task(worker.keep())
            except* (ConfigurationError, InternalError) as failures:
                failure = failures.exceptions[0]
            else:
                return
        raise failure

    def drain(self, limit_s: float | None = None, *, but: Worker | None = None) -> None:
        """Has all workers drain, but for one that does already."""
        self._ending.set()
        for worker in self._workers:
            if worker is not but:
                worker.drain(limit_s)

    def stop(self) -> None:
        """Has all workers stop, without waiting for episodes."""
        self._ending.set()
        for worker in self._workers:
            worker.stop()

    # What a worker needs of all (`keeping.Team`)

    @property
    def ending(self) -> bool:
        """Whether none is to be started again."""
        return self._ending.is_set()

    async def pause(self, seconds: float) -> None:
        """Waits, but not once all are to end."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ending.wait()

    def crew(self, number: int) -> Crew:
        """Returns what a worker is told of all when it is started."""
        return Crew(
            server_id=self._server_id,
            worker=number,
            size=len(self._workers),
            addresses=self._addresses(),
        )

    def listens(self) -> None:
        """Tells all workers where the others are, once they all listen."""
        addresses = self._addresses()
        if addresses:
            for worker in self._workers:
                worker.tell(addresses)

    def acquainted(self) -> None:
        """Tells that the server is ready, once every worker can tell clients of the others."""
        on_ready = self._on_ready
        doors = [worker.doors for worker in self._workers if worker.doors is not None]
        if on_ready is not None and all(worker.is_acquainted for worker in self._workers):
            self._on_ready = None
            on_ready(doors)

    def _addresses(self) -> tuple[WorkerAddress, ...]:
        """Lists where all are; nothing as long as that is not known."""
        known = [worker.address for worker in self._workers]
        found = tuple(address for address in known if address is not None)
        return found if len(found) == len(known) else ()
