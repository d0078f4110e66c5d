"""One worker of a server: its process, and the next one after a crash."""

from __future__ import annotations

import asyncio
import logging
import math
from dataclasses import replace
from typing import Protocol

from openenv_grpc.crew import Crew, WorkerAddress
from openenv_grpc.errors import ConfigurationError, InternalError
from openenv_grpc.events import log_event
from openenv_grpc.options import ServerOptions
from openenv_grpc.workers.doors import DoorPlan, WorkerDoors
from openenv_grpc.workers.line import Acquainted, Addresses, Drain, Failed, Message, Ready
from openenv_grpc.workers.process import WorkerProcess
from openenv_grpc.workers.setup import Served

logger = logging.getLogger(__name__)

MAX_CRASHES = 4
"""Crashes of one worker in a row after which the server ends."""

STEADY_S = 30.0
"""How long a worker has to listen for its crash not to be the last one's sequel."""

FIRST_DELAY_S = 0.5
"""How long is waited before a worker is started again; twice as long each time in a row."""


class Team(Protocol):
    """The workers of a server, as one of them sees them."""

    @property
    def ending(self) -> bool:
        """Whether none is to be started again."""
        ...

    def crew(self, number: int) -> Crew:
        """Returns what a worker is told of all when it is started."""
        ...

    def listens(self) -> None:
        """Notes that a worker has come to listen."""
        ...

    def acquainted(self) -> None:
        """Notes that a worker knows where the others are."""
        ...

    def drain(self, limit_s: float | None, *, but: Worker | None = None) -> None:
        """Has all drain, but for one that does already."""
        ...

    async def pause(self, seconds: float) -> None:
        """Waits, but not once all are to end."""
        ...


class Worker:
    """Keeps one worker running."""

    def __init__(self, team: Team, served: Served, number: int, plan: DoorPlan) -> None:
        self._team = team
        self._served = served
        self._number = number
        self._plan = plan
        self._process: WorkerProcess | None = None
        self._failure: Failed | None = None
        self._listens_since = math.inf
        self._doors: WorkerDoors | None = None
        self.is_acquainted = False
        """Whether it knows where the others are."""

    @property
    def doors(self) -> WorkerDoors | None:
        """Where it listens, or did before a crash; `None` if it never has."""
        return self._doors

    @property
    def address(self) -> WorkerAddress | None:
        """The same for clients."""
        return None if self._doors is None else self._doors.address(self._plan.public_url)

    async def keep(self) -> None:
        """Runs the worker, again after each crash, until all are to end.

        Raises:
            ConfigurationError: it cannot serve what it is told to.
            InternalError: it has ended too often, or never came to listen.
        """
        loop, crashes = asyncio.get_running_loop(), 0
        while not self._team.ending:
            self._listens_since = math.inf
            exit_code = await self._live()
            if self._team.ending:
                return
            if loop.time() - self._listens_since >= STEADY_S:
                crashes = 0
            crashes += 1
            if self._doors is None:
                raise self._error(exit_code, crashes)
            log_event(
                logger,
                logging.ERROR,
                "worker ended; its sessions are lost",
                worker=self._number,
                exit_code=exit_code,
                crashes=crashes,
                detail=None if self._failure is None else self._failure.message,
            )
            if crashes >= MAX_CRASHES:
                raise self._error(exit_code, crashes)
            await self._team.pause(FIRST_DELAY_S * 2 ** (crashes - 1))

    async def _live(self) -> int:
        """Runs one process to its end."""
        self._failure = None
        options: ServerOptions = {**self._served.options, **self._plan.options()}
        served = replace(self._served, options=options)
        self._process = WorkerProcess(served.written(self._team.crew(self._number)))
        try:
            return await self._process.follow(self._hear)
        finally:
            self._process = None

    def _hear(self, message: Message) -> None:
        match message:
            case Ready():
                self._doors = message.doors
                self._plan = self._plan.kept(message.doors)
                self._listens_since = asyncio.get_running_loop().time()
                self._team.listens()
            case Acquainted():
                self.is_acquainted = True
                self._team.acquainted()
            case Drain(limit_s=limit_s):
                self._team.drain(limit_s, but=self)
            case Failed():
                self._failure = message
            case Addresses():
                pass  # what workers are told, and do not tell

    def tell(self, addresses: tuple[WorkerAddress, ...]) -> None:
        """Tells it where all are."""
        if self._process is not None:
            self._process.line.say(Addresses(addresses=addresses))

    def drain(self, limit_s: float | None) -> None:
        """Has it drain; one that does not listen yet has nothing to wait for."""
        if self._process is None:
            return
        if self._listens_since < math.inf:
            self._process.line.say(Drain(limit_s=limit_s))
        else:
            self._process.stop()

    def stop(self) -> None:
        """Has it stop without waiting for episodes."""
        if self._process is not None:
            self._process.stop()

    def _error(self, exit_code: int, crashes: int) -> ConfigurationError | InternalError:
        if self._failure is not None and self._failure.misused:
            return ConfigurationError(self._failure.message)
        how = f"with exit code {exit_code}" if exit_code >= 0 else f"by signal {-exit_code}"
        detail = "" if self._failure is None else f": {self._failure.message}"
        if self._doors is None:
            return InternalError(f"worker {self._number} ended {how} before it served{detail}")
        return InternalError(
            f"worker {self._number} ended {crashes} times in a row, at last {how}{detail}; the log "
            "tells what came before"
        )
