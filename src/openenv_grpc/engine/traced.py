"""Spans of a session's operations: from arrival to answer, and of the environment's part in it."""

from __future__ import annotations

from openenv_grpc.engine.instance import Instance
from openenv_grpc.engine.performing import Outcome, Performer
from openenv_grpc.operations import Operation
from openenv_grpc.tracing import Facts, ServerSpan, Tracing


class OperationSpans:
    """The spans of one session's operations."""

    def __init__(self, tracing: Tracing, *, session_id: str, environment: str) -> None:
        self._tracing = tracing
        self._facts = _facts(session_id, environment)

    def start(self, operation: Operation) -> ServerSpan:
        """Starts the span of an operation that has come in, and has its environment's be below."""
        span = self._tracing.serving(
            f"openenv {operation.kind.value}",
            operation.trace,
            {**self._facts, "openenv.request_id": operation.request_id},
        )
        operation.trace = span.traceparent
        return span


class TracedPerformer(Performer):
    """Does operations, each in a span that is current while the environment runs."""

    def __init__(
        self, instance: Instance, tracing: Tracing, *, session_id: str, redact_errors: bool
    ) -> None:
        super().__init__(instance, session_id=session_id, redact_errors=redact_errors)
        self._tracing = tracing
        self._facts = _facts(session_id, instance.spec.name)

    def perform(self, operation: Operation) -> Outcome:
        """Does a blocking operation."""
        with self._tracing.inside(self._name(operation), operation.trace, self._facts) as span:
            outcome = super().perform(operation)
            if outcome[1] is not None:
                span.failed(outcome[1])
        return outcome

    async def perform_async(self, operation: Operation) -> Outcome:
        """Does an operation that is awaited."""
        with self._tracing.inside(self._name(operation), operation.trace, self._facts) as span:
            outcome = await super().perform_async(operation)
            if outcome[1] is not None:
                span.failed(outcome[1])
        return outcome

    def _name(self, operation: Operation) -> str:
        return f"{self.instance.spec.name} {operation.kind.value}"


def make_performer(
    instance: Instance, tracing: Tracing | None, *, session_id: str, redact_errors: bool
) -> Performer:
    """Makes what does an environment's operations, traced if there is tracing."""
    if tracing is None:
        return Performer(instance, session_id=session_id, redact_errors=redact_errors)
    return TracedPerformer(instance, tracing, session_id=session_id, redact_errors=redact_errors)


def _facts(session_id: str, environment: str) -> Facts:
    return {"openenv.session_id": session_id, "openenv.environment": environment}
