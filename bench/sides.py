"""What is measured against what: servers, and the clients that reach them by some door."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Door(StrEnum):
    """How a client reaches a server."""

    GRPC = "grpc"
    UNIX = "unix"
    """gRPC on a Unix socket."""
    HTTP = "http"
    """The port of HTTP, or the only port of others. Our client speaks binary frames there."""
    NONE = "none"
    """There is no server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSpec:
    """A server to start."""

    kind: str = "ours"
    """`ours`, `reference`, `tuned`, `dm_env_rpc` or `ping_pong`."""
    environment: str = "Tiny"
    isolation: str = ""
    """Where our environment runs, if not where its class says."""
    pinned: bool = False
    """Whether ours stays on one processor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of those that a row compares."""

    label: str
    server: ServerSpec
    client: str = "ours"
    """A name of `bench.clients.CLIENTS`."""
    door: Door = Door.GRPC
    mode: str = ""
    """How the load drives it, if not as the row says."""
