"""What makes spans, and whether there is any: only programs that configure OpenTelemetry pay."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Protocol

from openenv_grpc.errors import ConfigurationError, OpenEnvError
from openenv_grpc.events import Fact

Facts = Mapping[str, Fact]

HEADER = "traceparent"
"""Carries a span's name from one process to the next: in headers, metadata and operations."""

TRACEPARENT: ContextVar[str] = ContextVar("openenv_traceparent", default="")
"""The client's span that is current, as it is sent along; empty where nothing is traced."""

_API = "opentelemetry.trace"


class ServerSpan(Protocol):
    """One operation, from its arrival to its answer."""

    @property
    def traceparent(self) -> str:
        """Names it, for the spans below it."""
        ...

    def end(self, error: OpenEnvError | None) -> None:
        """Ends it."""
        ...


class EnvironmentSpan(Protocol):
    """What an environment does for one operation."""

    def failed(self, error: OpenEnvError) -> None:
        """Notes what came of it."""
        ...


class Tracing(Protocol):
    """Makes spans. Facts that are `None` are left out."""

    def adopt(self, headers: Mapping[str, str]) -> None:
        """Has spans of the current task be below the one that headers name, if they name one."""
        ...

    def calling(self, name: str, facts: Facts) -> AbstractContextManager[None]:
        """Makes a client's span of the block, and has its errors end it."""
        ...

    def serving(self, name: str, traceparent: str, facts: Facts) -> ServerSpan:
        """Starts a server's span, below another; below the task's where that is empty."""
        ...

    def inside(
        self, name: str, traceparent: str, facts: Facts
    ) -> AbstractContextManager[EnvironmentSpan]:
        """Makes a span of the block, below another, which is current there."""
        ...


def configured() -> Tracing | None:
    """Returns what makes spans, if the program has configured OpenTelemetry so far."""
    api = sys.modules.get(_API)
    if api is None or isinstance(api.get_tracer_provider(), api.ProxyTracerProvider):
        return None
    from openenv_grpc.tracing.otel import OtelTracing  # which takes OpenTelemetry

    return OtelTracing(api.get_tracer_provider())


def configure() -> None:
    """Configures OpenTelemetry by its variables `OTEL_...`, unless the program has done so.

    Raises:
        ConfigurationError: it is not installed, or an exporter is not.
    """
    try:
        from openenv_grpc.tracing import setup  # which takes OpenTelemetry's SDK
    except ImportError as error:
        raise ConfigurationError(
            "traces need OpenTelemetry's SDK; install openenv-grpc[otel]"
        ) from error
    setup.configure()
