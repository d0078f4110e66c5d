"""The sessions of a vector client, opened beside each other."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TypedDict

from openenv_grpc.client.credentials import FilePath
from openenv_grpc.client.generic_client import GenericEnvClient
from openenv_grpc.client.operations import Group
from openenv_grpc.client.providers import Provider
from openenv_grpc.client.remote_session import RemoteSession


class ConnectionArguments(TypedDict, total=False):
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
    token: str | None
    tls_ca: FilePath | None
    tls_cert: FilePath | None
    tls_key: FilePath | None


class VectorSessions(GenericEnvClient):
    """Opens sessions beside each other, on one connection."""

    async def open(self, count: int) -> list[RemoteSession]:
        """Opens some, which get their slots together: all or none. Raises the first error."""
        self._bind()
        await self._located()
        group = Group(count) if count > 1 else None
        opened = await asyncio.gather(
            *(self._dial(group) for _ in range(count)), return_exceptions=True
        )
        failed = [found for found in opened if isinstance(found, BaseException)]
        sessions = [found for found in opened if not isinstance(found, BaseException)]
        if failed:
            await asyncio.gather(*(session.close() for session in sessions))
            raise failed[0]
        return sessions
