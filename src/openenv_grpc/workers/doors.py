"""Where each worker of a server listens."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from openenv_grpc.crew import WorkerAddress
from openenv_grpc.errors import ConfigurationError
from openenv_grpc.options import ServerOptions

PLACE_OF_NUMBER = "{worker}"
"""Stands for a worker's number in a public URL."""

_PORTS = 2**16


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerDoors:
    """Where one worker listens; `None` for a door that it has not."""

    grpc: str | None
    http: str | None
    unix: str | None
    http_unix: str | None = None

    def address(self, public_url: str) -> WorkerAddress:
        """Returns the same for clients."""
        return WorkerAddress(
            grpc_port=_port(self.grpc),
            http_port=_port(self.http),
            unix_path=_absolute(self.unix),
            http_unix_path=_absolute(self.http_unix),
            public_url=public_url,
        )


def _absolute(path: str | None) -> str:
    return "" if path is None else str(Path(path).absolute())


def _port(address: str | None) -> int:
    return 0 if address is None else int(address.rpartition(":")[2])


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorPlan:
    """Where a worker is to listen. A port of 0 is any free one."""

    grpc_port: int | None
    http_port: int | None
    unix: Path | None
    http_unix: Path | None
    public_url: str

    def options(self) -> ServerOptions:
        """Returns what its server takes."""
        return ServerOptions(
            grpc_port=self.grpc_port,
            http_port=self.http_port,
            unix=self.unix,
            http_unix=self.http_unix,
            public_url=self.public_url or None,
        )

    def kept(self, doors: WorkerDoors) -> Self:
        """Returns the plan for a worker that comes after one that listened there."""
        return replace(
            self,
            grpc_port=None if doors.grpc is None else _port(doors.grpc),
            http_port=None if doors.http is None else _port(doors.http),
        )


def plan_doors(options: ServerOptions, size: int) -> list[DoorPlan]:
    """Gives each worker doors of its own: the first has those that were asked for.

    Ports count on from there; a socket's path gets the worker's number for a suffix.

    Raises:
        ConfigurationError: there are not as many, or they are the same.
    """
    grpc_ports = _ports(options.get("grpc_port"), size, "--grpc-port")
    http_ports = _ports(options.get("http_port"), size, "--http-port")
    shared = {port for port in grpc_ports if port} & set(http_ports)
    if shared:
        raise ConfigurationError(
            f"each of {size} workers has ports of its own, counted on from --grpc-port and "
            f"--http-port, and both would have {min(shared)}; choose ports that are further apart"
        )
    public_url = options.get("public_url") or ""
    if public_url and PLACE_OF_NUMBER not in public_url:
        raise ConfigurationError(
            f"each worker is reached at an address of its own: with --workers, --public-url has "
            f"{PLACE_OF_NUMBER} where its number stands, as in https://HOST/{PLACE_OF_NUMBER}"
        )
    unix, http_unix = options.get("unix"), options.get("http_unix")
    return [
        DoorPlan(
            grpc_port=grpc_ports[number],
            http_port=http_ports[number],
            unix=None if unix is None else _socket_path(Path(unix), number),
            http_unix=None if http_unix is None else _socket_path(Path(http_unix), number),
            public_url=public_url.replace(PLACE_OF_NUMBER, str(number)),
        )
        for number in range(size)
    ]


def _ports(first: int | None, size: int, option: str) -> list[int | None]:
    if not first:  # none, or any that are free
        return [first] * size
    if first + size > _PORTS:
        raise ConfigurationError(
            f"{size} workers need the ports from {first} to {first + size - 1}, and the last there "
            f"is is {_PORTS - 1}; choose a lower {option}"
        )
    return list(range(first, first + size))


def _socket_path(path: Path, number: int) -> Path:
    return path if number == 0 else path.with_name(f"{path.name}.{number}")
