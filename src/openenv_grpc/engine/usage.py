"""What a server's sessions take, measured when somebody asks."""

from __future__ import annotations

from collections.abc import Iterable

from openenv_grpc.engine.processes import Processes
from openenv_grpc.engine.resuming import Windows
from openenv_grpc.engine.session import Session
from openenv_grpc.metrics import Usage


def measure(sessions: Iterable[Session], windows: Windows, processes: Processes) -> Usage:
    """Adds up what is in use."""
    live = list(sessions)
    kept_records, kept_record_bytes = windows.kept
    return Usage(
        operations_in_flight=sum(session.in_flight for session in live),
        record_bytes=sum(session.record_bytes for session in live),
        kept_records=kept_records,
        kept_record_bytes=kept_record_bytes,
        idle_processes=processes.idle(),
    )
