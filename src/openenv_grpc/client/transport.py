"""Whole messages to and from a server, whatever carries them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from openenv_grpc import busy_polling
from openenv_grpc.client.credentials import Headers, TlsFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """How a connection is made and kept. Clients with the same ones share it."""

    max_message_bytes: int
    """The largest message that is taken from the server."""
    ping_interval_s: float | None = 20.0
    """How long a connection may be silent before it is probed; `None` for ever."""
    ping_timeout_s: float | None = 20.0
    """How long the answer may take before the connection counts as lost; `None` for ever."""
    headers: Headers = field(default=(), repr=False)
    """Sent along when connecting. There may be a token among them."""
    tls: TlsFiles = field(default_factory=TlsFiles)
    """For servers with TLS."""
    shared_memory: bool | None = None
    """Whether large messages may go through memory; `None` if the server is on this machine."""
    busy_poll_s: float = busy_polling.LIMIT_S
    """How long the event loop looks for an answer before it sleeps; 0 for not at all."""


class Transport(Protocol):
    """Carries messages. One task at a time reads, and one writes."""

    async def read(self) -> bytes | None:
        """Returns the next message, or `None` at the end. Raises an `OpenEnvError` if it breaks."""
        ...

    async def write(self, data: bytes) -> None:
        """Sends a message. Raises an `OpenEnvError` if it breaks."""
        ...

    async def close(self) -> None:
        """Ends it. May be called again."""
        ...
