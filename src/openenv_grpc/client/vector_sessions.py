"""The sessions of a vector client, opened beside each other."""

from __future__ import annotations

from collections.abc import Mapping

from openenv_grpc.client import spreading
from openenv_grpc.client.credentials import Credentials
from openenv_grpc.client.generic_client import GenericEnvClient
from openenv_grpc.client.providers import Provider
from openenv_grpc.client.remote_session import RemoteSession


class ConnectionArguments(Credentials, total=False):
    """What `EnvClient` takes beside its URL."""

    connect_timeout_s: float
    message_timeout_s: float | None
    max_message_size_mb: float
    websocket_ping_interval_s: float | None
    websocket_ping_timeout_s: float | None
    provider: Provider | None
    headers: Mapping[str, str] | None
    environment: str
    resume_window_s: float | None
    queue_timeout_s: float
    snapshot_id: str
    shared_memory: bool | None


class VectorSessions(GenericEnvClient):
    """Opens sessions beside each other, on one connection to each of the server's processes."""

    async def open(self, count: int) -> list[RemoteSession]:
        """Opens some, which get their slots together: all or none. Raises the first error."""
        self._bind()
        target = await self._located()
        return await spreading.open_group(target, self._options, self._wanted(), count)
