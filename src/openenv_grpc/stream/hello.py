"""What a server says of itself when a stream begins."""

from __future__ import annotations

import functools
import importlib.metadata

from openenv_grpc.sessions import SessionHost
from openenv_grpc.stream.limits import StreamLimits
from openenv_grpc.v1 import session_pb2
from openenv_grpc.wire.crew import fill_workers

FEATURES = (
    "evaluate", "resume", "agent_access", "queue", "snapshot", "progress", "events", "tools",
)  # fmt: skip


def hello_of(host: SessionHost, limits: StreamLimits, *, shares_memory: bool) -> bytes:
    """Writes the message with a server's hello."""
    response = session_pb2.ConnectResponse()
    hello = response.server
    hello.name = "openenv-grpc"
    hello.version = _version()
    hello.max_receive_size_bytes = limits.max_receive_bytes
    hello.features.extend(FEATURES)
    hello.environments.extend(host.environments)
    hello.max_operations_per_session = limits.max_operations_per_session
    fill_workers(hello.workers, host.crew)
    hello.shares_memory = shares_memory
    return response.SerializeToString()


@functools.cache
def _version() -> str:
    return importlib.metadata.version("openenv-grpc")
