"""The configuration of OpenTelemetry by its environment variables, for servers and workers."""

from __future__ import annotations

import os
import sys
from importlib.metadata import entry_points

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter

from openenv_grpc.errors import ConfigurationError

_EXPORTERS = {"otlp": "otlp_proto_grpc"}
"""Names of exporters that stand for others, as in OpenTelemetry's own tools."""


def configure() -> None:
    """Configures OpenTelemetry by its variables `OTEL_...`, unless the program has done so.

    Spans go in batches to what `OTEL_TRACES_EXPORTER` names: `otlp` if it says nothing. The
    service is named `openenv-grpc` unless `OTEL_SERVICE_NAME` or the like says otherwise.

    Raises:
        ConfigurationError: an exporter is not installed.
    """
    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return
    named = os.environ.get("OTEL_SERVICE_NAME") or "service.name" in os.environ.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    )
    provider = TracerProvider(
        resource=Resource.create({} if named else {"service.name": "openenv-grpc"})
    )
    for name in os.environ.get("OTEL_TRACES_EXPORTER", "otlp").split(","):
        if name.strip() != "none":
            provider.add_span_processor(BatchSpanProcessor(_exporter(name.strip())))
    trace.set_tracer_provider(provider)


def _exporter(name: str) -> SpanExporter:
    if name == "console":  # beside the logs: standard output has the READY line
        return ConsoleSpanExporter(out=sys.stderr)
    found = entry_points(group="opentelemetry_traces_exporter", name=_EXPORTERS.get(name, name))
    for entry in found:
        made: SpanExporter = entry.load()()
        return made
    raise ConfigurationError(
        f"OTEL_TRACES_EXPORTER names {name!r}, which is not installed; install openenv-grpc[otel], "
        "or the package of that exporter"
    )
