"""Spans by OpenTelemetry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version

from opentelemetry import context, trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from openenv_grpc.errors import OpenEnvError
from openenv_grpc.tracing.port import HEADER, TRACEPARENT, EnvironmentSpan, Facts, ServerSpan

_W3C = TraceContextTextMapPropagator()


class OtelSpan:
    """Implements `ServerSpan` and `EnvironmentSpan`."""

    def __init__(self, span: Span) -> None:
        self._span = span

    @property
    def traceparent(self) -> str:
        """See `ServerSpan`."""
        return _traceparent(self._span)

    def end(self, error: OpenEnvError | None) -> None:
        """See `ServerSpan`."""
        if error is not None:
            self.failed(error)
        self._span.end()

    def failed(self, error: OpenEnvError) -> None:
        """See `EnvironmentSpan`. The exception of an environment is recorded with its traceback."""
        _tell(self._span, error)
        if isinstance(error.__cause__, Exception):
            self._span.record_exception(error.__cause__)


class OtelTracing:
    """Makes spans of a provider. Implements `Tracing`."""

    def __init__(self, provider: trace.TracerProvider) -> None:
        self._tracer = provider.get_tracer("openenv_grpc", version("openenv-grpc"))

    def adopt(self, headers: Mapping[str, str]) -> None:
        """See `Tracing`."""
        if HEADER in headers:
            context.attach(_W3C.extract(headers))

    @contextmanager
    def calling(self, name: str, facts: Facts) -> Iterator[None]:
        """See `Tracing`."""
        with self._tracer.start_as_current_span(
            name,
            kind=SpanKind.CLIENT,
            attributes=_attributes(facts),
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            before = TRACEPARENT.set(_traceparent(span))
            try:
                yield
            except OpenEnvError as error:
                _tell(span, error)
                raise
            finally:
                TRACEPARENT.reset(before)

    def serving(self, name: str, traceparent: str, facts: Facts) -> ServerSpan:
        """See `Tracing`."""
        return OtelSpan(
            self._tracer.start_span(
                name,
                context=_W3C.extract({HEADER: traceparent}) if traceparent else None,
                kind=SpanKind.SERVER,
                attributes=_attributes(facts),
            )
        )

    @contextmanager
    def inside(self, name: str, traceparent: str, facts: Facts) -> Iterator[EnvironmentSpan]:
        """See `Tracing`."""
        with self._tracer.start_as_current_span(
            name, context=_W3C.extract({HEADER: traceparent}), attributes=_attributes(facts)
        ) as span:
            yield OtelSpan(span)


def _traceparent(span: Span) -> str:
    carrier: dict[str, str] = {}
    _W3C.inject(carrier, trace.set_span_in_context(span))
    return carrier.get(HEADER, "")


def _tell(span: Span, error: OpenEnvError) -> None:
    span.set_attribute("error.type", error.reason.name)
    span.set_status(Status(StatusCode.ERROR, error.message))


def _attributes(facts: Facts) -> dict[str, str | int | float]:
    return {name: fact for name, fact in facts.items() if fact is not None}
