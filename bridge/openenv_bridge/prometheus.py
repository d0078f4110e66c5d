"""`GET /metrics`: what the host has counted, in the text format that Prometheus reads."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain

from aiohttp import web

from openenv_grpc.log_rates import dropped
from openenv_grpc.metrics import DURATION_BOUNDS_S, Durations, EnvironmentMetrics
from openenv_grpc.sessions import SessionHost, SessionState

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_STATES = tuple(state for state in SessionState if state is not SessionState.CLOSED)


class MetricsRoute:
    """Tells the metrics of a host."""

    def __init__(self, host: SessionHost) -> None:
        self._host = host

    async def metrics(self, request: web.Request) -> web.Response:
        """Writes all of them."""
        host = self._host
        parts = (_sessions(host), _operations(host), _usage(host), _server(host))
        lines = [*chain.from_iterable(parts), ""]
        if host.crew is not None:
            lines = [_of_worker(line, host.crew.worker) for line in lines]
        return web.Response(body="\n".join(lines).encode(), headers={"Content-Type": CONTENT_TYPE})


def _sessions(host: SessionHost) -> Iterator[str]:
    live = Counter((session.environment, session.state) for session in host.sessions())
    yield from _family("openenv_sessions", "gauge", "Live sessions.")
    for name in host.environments:
        for state in _STATES:
            count = live[name, state]
            yield _sample("openenv_sessions", count, environment=name, state=state.value)
    yield from _family("openenv_session_limit", "gauge", "Sessions that may be open at once.")
    for name, spec in host.environments.items():
        yield _sample("openenv_session_limit", spec.session_limit, environment=name)
    yield from _family("openenv_sessions_opened_total", "counter", "Sessions that got a slot.")
    for name, counted in _counted(host):
        yield _sample("openenv_sessions_opened_total", counted.opened, environment=name)
    yield from _family("openenv_sessions_ended_total", "counter", "Sessions that have ended.")
    for name, counted in _counted(host):
        for cause, count in sorted(counted.ended.items()):
            yield _sample("openenv_sessions_ended_total", count, environment=name, cause=cause)


def _operations(host: SessionHost) -> Iterator[str]:
    name = "openenv_operation_duration_seconds"
    yield from _family(name, "histogram", "From an operation's arrival to its answer.")
    for environment, counted in _counted(host):
        for kind, durations in counted.durations.items():
            if any(durations.counts):
                labels = {"environment": environment, "operation": kind.value}
                yield from _histogram(name, durations, labels)
    help_text = "Operations that failed or were refused, and openings that were."
    yield from _family("openenv_errors_total", "counter", help_text)
    for environment, counted in _counted(host):
        for reason, count in sorted(counted.errors.items(), key=lambda item: item[0].name):
            labels = {"environment": environment, "reason": reason.name}
            yield _sample("openenv_errors_total", count, **labels)


def _usage(host: SessionHost) -> Iterator[str]:
    usage, metrics = host.usage(), host.metrics
    for name, kind, value, help_text in (
        ("operations_in_flight", "gauge", usage.operations_in_flight, "Without an answer so far."),
        ("record_bytes", "gauge", usage.record_bytes, "Answers that live sessions keep."),
        ("kept_records", "gauge", usage.kept_records, "Ended sessions whose answers are kept."),
        ("kept_record_bytes", "gauge", usage.kept_record_bytes, "What those answers take."),
        ("opens_limited_total", "counter", metrics.opens_limited, "Openings that came too often."),
        ("log_lines_dropped_total", "counter", dropped.lines, "Log lines of peers with too many."),
    ):
        yield from _family(f"openenv_{name}", kind, help_text)
        yield _sample(f"openenv_{name}", value)
    yield from _family("openenv_idle_processes", "gauge", "Processes that wait for a session.")
    for name, count in usage.idle_processes.items():
        yield _sample("openenv_idle_processes", count, environment=name)
    yield from _family("openenv_limit", "gauge", "What bounds the server, by its option.")
    for name, limit in sorted(metrics.limits.items()):
        yield _sample("openenv_limit", limit, limit=name)


def _server(host: SessionHost) -> Iterator[str]:
    doors = sorted(host.metrics.doors.items())
    yield from _family("openenv_received_bytes_total", "counter", "Bytes of messages received.")
    for door, traffic in doors:
        yield _sample("openenv_received_bytes_total", traffic.received_bytes, door=door)
    yield from _family("openenv_sent_bytes_total", "counter", "Bytes of messages sent.")
    for door, traffic in doors:
        yield _sample("openenv_sent_bytes_total", traffic.sent_bytes, door=door)
    metrics = host.metrics
    yield from _family("openenv_snapshots", "gauge", "Snapshots that are kept.")
    yield _sample("openenv_snapshots", metrics.snapshots)
    yield from _family("openenv_snapshot_bytes", "gauge", "What they take.")
    yield _sample("openenv_snapshot_bytes", metrics.snapshot_bytes)
    help_text = "Snapshots that had to make room for others."
    yield from _family("openenv_snapshots_dropped_total", "counter", help_text)
    yield _sample("openenv_snapshots_dropped_total", metrics.snapshots_dropped)
    help_text = "Calls that run on although their session was given up."
    yield from _family("openenv_stuck_threads", "gauge", help_text)
    yield _sample("openenv_stuck_threads", host.stuck_threads)
    yield from _family("openenv_draining", "gauge", "Whether new sessions are refused.")
    yield _sample("openenv_draining", int(host.draining))


def _counted(host: SessionHost) -> Iterable[tuple[str, EnvironmentMetrics]]:
    return host.metrics.environments.items()


def _histogram(name: str, durations: Durations, labels: dict[str, str]) -> Iterator[str]:
    total = 0
    for bound, count in zip((*DURATION_BOUNDS_S, None), durations.counts, strict=True):
        total += count
        limit = "+Inf" if bound is None else f"{bound:g}"
        yield _sample(f"{name}_bucket", total, **labels, le=limit)
    yield _sample(f"{name}_sum", durations.total_s, **labels)
    yield _sample(f"{name}_count", total, **labels)


def _family(name: str, kind: str, help_text: str) -> tuple[str, str]:
    return f"# HELP {name} {help_text}", f"# TYPE {name} {kind}"


def _sample(name: str, value: float, /, **labels: str) -> str:
    written = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    number = "+Inf" if value == math.inf else repr(value)
    return f"{name}{{{written}}} {number}" if written else f"{name} {number}"


def _of_worker(line: str, worker: int) -> str:
    """Gives a sample the worker process that counted it for a label."""
    if not line or line.startswith("#"):
        return line
    name, _, value = line.rpartition(" ")
    name, brace, labels = name.partition("{")
    labels = labels if brace else "}"
    comma = "" if labels == "}" else ","
    return f'{name}{{worker="{worker}"{comma}{labels} {value}'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
