"""What a worker and its supervisor tell each other: a line of JSON each, over a pair of sockets."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import asdict, dataclass

from openenv_grpc.crew import WorkerAddress
from openenv_grpc.workers.doors import WorkerDoors

_CHUNK_BYTES = 2**16


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The worker listens."""

    grpc: str | None
    http: str | None
    unix: str | None
    http_unix: str | None

    @property
    def doors(self) -> WorkerDoors:
        """Where it does."""
        return WorkerDoors(grpc=self.grpc, http=self.http, unix=self.unix, http_unix=self.http_unix)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The worker cannot serve."""

    message: str
    misused: bool
    """Whether it was told what makes no sense."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """The worker drains, or is to."""

    limit_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where all workers are."""

    addresses: tuple[WorkerAddress, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Acquainted:
    """The worker knows where all workers are."""


Message = Ready | Failed | Drain | Addresses | Acquainted


class Line:
    """One end. What cannot be sent any more is dropped: the other process has ended."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        end.setblocking(False)

    def say(self, message: Message) -> None:
        """Tells the other end something."""
        told = json.dumps([type(message).__name__, asdict(message)]) + "\n"
        with suppress(OSError):
            self._socket.send(told.encode())

    async def messages(self) -> AsyncIterator[Message]:
        """Iterates over what the other end tells, until it is gone."""
        loop, rest = asyncio.get_running_loop(), b""
        while True:
            try:
                chunk = await loop.sock_recv(self._socket, _CHUNK_BYTES)
            except OSError:
                return
            if not chunk:
                return
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield _read(line)

    def close(self) -> None:
        """Closes this end."""
        self._socket.close()


def _read(line: bytes) -> Message:
    kind, told = json.loads(line)
    match kind:
        case "Ready":
            return Ready(**told)
        case "Failed":
            return Failed(**told)
        case "Drain":
            return Drain(**told)
        case "Acquainted":
            return Acquainted()
        case _:
            return Addresses(addresses=tuple(WorkerAddress(**each) for each in told["addresses"]))
