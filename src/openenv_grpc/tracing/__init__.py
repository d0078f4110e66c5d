"""Spans of calls and operations, by OpenTelemetry where that is configured.

It is imported only then.
"""

from openenv_grpc.tracing.port import (
    HEADER,
    TRACEPARENT,
    EnvironmentSpan,
    Facts,
    ServerSpan,
    Tracing,
    configure,
    configured,
)

__all__ = [
    "HEADER",
    "TRACEPARENT",
    "EnvironmentSpan",
    "Facts",
    "ServerSpan",
    "Tracing",
    "configure",
    "configured",
]
