"""The keyword arguments of a server, for those who pass them on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypedDict

from openenv_grpc.crew import Crew
from openenv_grpc.types import ServerMode

FilePath = str | os.PathLike[str]


class EngineOptions(TypedDict, total=False):
    """How a server runs its sessions: fields of the engine's settings, which tell the defaults."""

    redact_errors: bool
    """Keeps the text of an environment's exceptions from clients."""
    worker_memory_bytes: int | None
    """Limits the address space of each process of an environment that is isolated so."""
    max_resume_window_s: float
    """The longest time for which a session outlives its connection; 0 for not at all."""
    stuck_grace_s: float
    """How long a call may run on past its deadline before its session is given up."""
    max_stuck: int
    """Calls that may run on although their session was given up, before health says so."""
    max_operations_per_session: int
    """Operations in flight in one session."""
    max_records: int
    """Answers that a session keeps for those who ask again."""
    max_record_bytes: int
    """What they may take, all together."""
    max_kept_records: int
    """Ended sessions whose answers are kept until their windows have passed."""
    max_kept_record_bytes: int
    """What those may take, all together."""
    process_pool_size: int
    """Processes that wait for a session, of each environment that runs in processes."""
    opens_per_minute: float | None
    """Sessions that each peer beyond this machine may open; `None` for any number."""
    max_snapshots: int
    """How many snapshots are kept, those that were used last; none with 0."""
    max_snapshot_bytes: int
    """What they may take, all together."""
    max_queued: int
    """Openings that may wait at once where no slot is free."""
    queue_timeout_s: float
    """The longest time for which each waits."""
    detached_grace_s: float
    """How long a session that nobody is attached to keeps its slot although others wait."""
    hold_and_wait_grace_s: float
    """How long a connection may leave all slots idle that its own openings wait for."""
    busy_poll_s: float
    """How long the event loop looks for what is asked next before it sleeps; 0 for not at all."""
    crew: Crew | None
    """The worker processes of which the server is one, for `openenv-grpc serve --workers`."""
    otel: bool
    """Configures OpenTelemetry by its variables, unless the program has done so."""


class ServerOptions(EngineOptions, total=False):
    """What `Server` takes, which tells of it."""

    host: str
    grpc_port: int | None
    http_port: int | None
    unix: FilePath | None
    http_unix: FilePath | None
    insecure: bool
    tokens: str | Sequence[str] | None
    token_file: FilePath | None
    agent_tokens: bool
    tls_cert: FilePath | None
    tls_key: FilePath | None
    tls_client_ca: FilePath | None
    public_url: str | None
    allowed_hosts: Sequence[str]
    allowed_origins: Sequence[str]
    mode: ServerMode | str | None
    max_sessions: int | None
    session_timeout_s: float | None
    max_message_bytes: int
    max_unsent_bytes: int
    max_shared_bytes: int
    max_json_bytes: int
    isolation: str | None
    drain_timeout_s: float
    progress_interval_s: float | None
    ping_interval_s: float | None
    ping_timeout_s: float | None
    refuse_when_full: bool
