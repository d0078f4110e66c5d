"""What whoever runs a server asks of it: which sessions there are, the end of one, a drain."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Unpack

import grpc.aio

from openenv_grpc.client.credentials import Credentials, FilePath, request_headers, tls_files
from openenv_grpc.client.grpc_transport import open_channel
from openenv_grpc.client.rpc_errors import error_of
from openenv_grpc.client.transport import ConnectionOptions
from openenv_grpc.client.urls import parse_url, write_url
from openenv_grpc.client.worker_targets import worker_targets
from openenv_grpc.crew import Crew
from openenv_grpc.errors import DeadlineExceededError, InvalidRequestError
from openenv_grpc.v1 import admin_pb2, admin_pb2_grpc, catalog_pb2, catalog_pb2_grpc
from openenv_grpc.wire.crew import read_workers
from openenv_grpc.wire.durations import fill_duration

MAX_MESSAGE_BYTES = 100 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSession:
    """One session of a server."""

    session_id: str
    environment: str
    state: str
    """`opening`, `ready`, `running`, `detached` or `closing`."""
    under_way: bool
    """Whether anything is asked of it, or it is amid an episode."""
    age_s: float
    idle_s: float | None
    """`None` while an operation runs."""
    step_count: int
    peer: str
    """Who is attached; empty if nobody is."""


class Administration:
    """`AdminService` of one server, or of one of its worker processes."""

    def __init__(self, channel: grpc.aio.Channel, metadata: tuple[tuple[str, str], ...]) -> None:
        self._stub: admin_pb2_grpc.AdminServiceAsyncStub = admin_pb2_grpc.AdminServiceStub(channel)
        self._catalog: catalog_pb2_grpc.CatalogServiceAsyncStub = (
            catalog_pb2_grpc.CatalogServiceStub(channel)
        )
        self._metadata = metadata

    async def crew(self) -> Crew | None:
        """Returns the server's worker processes, if it has several."""
        request = catalog_pb2.ListEnvironmentsRequest()
        listed = await self._catalog.ListEnvironments(request, metadata=self._metadata)
        return read_workers(listed.workers)

    async def list_sessions(self) -> list[LiveSession]:
        """Lists the sessions, oldest first."""
        request = admin_pb2.ListSessionsRequest()
        listed = await self._stub.ListSessions(request, metadata=self._metadata)
        return [_live_session(session) for session in listed.sessions]

    async def close_session(self, session_id: str) -> None:
        """Ends a session; its client is told. Raises `SessionNotFoundError`."""
        request = admin_pb2.CloseSessionRequest(session_id=session_id)
        await self._stub.CloseSession(request, metadata=self._metadata)

    async def drain(self, limit_s: float | None = None) -> int:
        """Has the server drain; returns the number of open sessions, without waiting for them.

        `limit_s` is how long episodes may go on; `None` leaves it to the server.
        """
        request = admin_pb2.DrainRequest()
        if limit_s is not None:
            fill_duration(request.limit_timeout, limit_s)
        return (await self._stub.Drain(request, metadata=self._metadata)).session_count


@asynccontextmanager
async def administer(
    base_url: str,
    *,
    timeout_s: float = 10.0,
    token: str | None = None,
    tls_ca: FilePath | None = None,
    tls_cert: FilePath | None = None,
    tls_key: FilePath | None = None,
) -> AsyncIterator[Administration]:
    """Connects to a server for as long as the block takes, which is `timeout_s` at most.

    Token and certificates are those of an `EnvClient`.

    Raises:
        InvalidRequestError: the URL is not one of gRPC.
        UnavailableError, DeadlineExceededError: the server does not answer.
        UnauthenticatedError, PermissionDeniedError: the token is missing, or not a trainer's.
    """
    target = parse_url(base_url)
    if not target.grpc:
        raise InvalidRequestError(
            f"{base_url!r} is no URL of gRPC, by which servers are administered; use "
            "grpc://HOST:PORT, grpcs://HOST:PORT or unix:PATH"
        )
    options = ConnectionOptions(
        max_message_bytes=MAX_MESSAGE_BYTES,
        headers=request_headers(None, token),
        tls=tls_files(target, tls_ca, tls_cert, tls_key),
    )
    metadata = tuple((name.lower(), value) for name, value in options.headers)
    try:
        async with asyncio.timeout(timeout_s), open_channel(target, options) as channel:
            yield Administration(channel, metadata)
    except grpc.aio.AioRpcError as error:
        raise error_of(error, target=target.uri) from error
    except TimeoutError as error:
        raise DeadlineExceededError(
            f"{target.uri} did not answer within {timeout_s:g} s; see that a server runs there"
        ) from error


async def worker_urls(
    base_url: str, *, timeout_s: float = 10.0, **credentials: Unpack[Credentials]
) -> list[str]:
    """Lists where the worker processes of a server are, by their numbers.

    Where it has one, or the others cannot be found, it is `base_url` alone. Raises what
    `administer` raises.
    """
    async with administer(base_url, timeout_s=timeout_s, **credentials) as server:
        crew = await server.crew()
    targets = () if crew is None else worker_targets(parse_url(base_url), crew)
    return [write_url(target) for target in targets] or [base_url]


def _live_session(message: admin_pb2.SessionInfo) -> LiveSession:
    state = admin_pb2.SessionState.Name(message.state).removeprefix("SESSION_STATE_").lower()
    idle = message.idle_time.ToNanoseconds() / 1e9 if message.HasField("idle_time") else None
    return LiveSession(
        session_id=message.session_id,
        environment=message.environment,
        state=state,
        under_way=message.under_way,
        age_s=message.age_time.ToNanoseconds() / 1e9,
        idle_s=idle,
        step_count=message.step_count,
        peer=message.peer,
    )
