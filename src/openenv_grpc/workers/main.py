"""What runs in a worker process: a server, which tells its supervisor how it does."""

from __future__ import annotations

import asyncio
import pickle
import socket
import sys
from types import TracebackType
from typing import BinaryIO, Self

from openenv_grpc import lifeline
from openenv_grpc.crew import Crew
from openenv_grpc.definition import EnvironmentDefinition
from openenv_grpc.errors import ConfigurationError, OpenEnvError
from openenv_grpc.options import ServerOptions
from openenv_grpc.serving import Server, run_server
from openenv_grpc.targets import load
from openenv_grpc.workers.line import Acquainted, Addresses, Drain, Failed, Line, Ready
from openenv_grpc.workers.setup import Served

FAILED = 1
INTERRUPTED = 130


def main(control: int, pipe: int, parent: int, content: BinaryIO) -> None:
    """Serves until its supervisor, or a client, has the server stop."""
    lifeline.tie(pipe, parent=parent)
    sys.argv[:] = pickle.load(content)
    served: Served
    crew: Crew
    served, crew = pickle.load(content)
    served.prepare(worker=crew.worker)
    line = Line(socket.socket(fileno=control))
    try:
        definitions = [load(name, served.overrides) for name in served.targets]
        run_server(
            lambda: WorkerServer(*definitions, line=line, crew=crew, options=served.options),
            on_ready=lambda server: line.say(
                Ready(
                    grpc=server.grpc_address,
                    http=server.http_address,
                    unix=server.unix_path,
                    http_unix=server.http_unix_path,
                )
            ),
        )
    except (ConfigurationError, OpenEnvError) as error:
        line.say(Failed(message=str(error), misused=isinstance(error, ConfigurationError)))
        sys.exit(FAILED)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


class WorkerServer(Server):
    """A server that is one of several processes: what drains one drains all of them."""

    def __init__(
        self, *definitions: EnvironmentDefinition, line: Line, crew: Crew, options: ServerOptions
    ) -> None:
        taken: ServerOptions = {**options, "crew": crew}
        super().__init__(*definitions, **taken)
        self._line = line
        self._crew = crew
        self._listening: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Opens the doors, and listens to the supervisor."""
        await super().__aenter__()
        self._listening = asyncio.create_task(self._listen(), name="openenv supervisor")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._listening is not None:
            self._listening.cancel()
        await super().__aexit__(kind, error, traceback)

    def drain(self, limit_s: float | None = None) -> int:
        """Drains, and has the other workers drain too. Returns the live sessions of this one."""
        self._line.say(Drain(limit_s=limit_s))
        return super().drain(limit_s)

    async def _listen(self) -> None:
        async for message in self._line.messages():
            match message:
                case Drain(limit_s=limit_s):
                    super().drain(limit_s)
                case Addresses(addresses=addresses):
                    self._crew.addresses = addresses
                    self._line.say(Acquainted())
