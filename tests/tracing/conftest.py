"""A program that has OpenTelemetry configured, and the spans that it makes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

if find_spec("opentelemetry.sdk") is None and not os.environ.get("CI"):
    collect_ignore_glob = ["test_*.py"]  # install openenv-grpc[otel]


class Spans:
    """What has been traced."""

    def __init__(self, exporter: InMemorySpanExporter) -> None:
        self._exporter = exporter

    def ended(self) -> Sequence[ReadableSpan]:
        """Returns the spans that have ended, in that order."""
        return self._exporter.get_finished_spans()

    def named(self, name: str, kind: trace.SpanKind | None = None) -> ReadableSpan:
        """Returns the one span of a name, and kind."""
        (found,) = [
            span
            for span in self.ended()
            if span.name == name and (kind is None or span.kind is kind)
        ]
        return found


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Spans:
    """Configures OpenTelemetry for one test. Its own way to do that works once a process."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    return Spans(exporter)
