"""What a host counts as it goes: plain numbers, written on the event loop, read by whoever asks."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from openenv_grpc.errors import Reason
from openenv_grpc.operations import Kind

DURATION_BOUNDS_S = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
)  # fmt: skip
"""Upper bounds of the classes in which durations are counted; one class more has no bound."""


class Durations:
    """How long operations of one kind took."""

    __slots__ = ("counts", "total_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(DURATION_BOUNDS_S) + 1)
        """How many fell into each class, from the shortest on."""
        self.total_s = 0.0

    def add(self, seconds: float) -> None:
        """Counts one."""
        self.counts[bisect_left(DURATION_BOUNDS_S, seconds)] += 1
        self.total_s += seconds


class EnvironmentMetrics:
    """What is counted of one environment."""

    __slots__ = ("durations", "ended", "errors", "opened")

    def __init__(self) -> None:
        self.opened = 0
        """Sessions that got a slot."""
        self.ended: Counter[str] = Counter()
        """Sessions that have ended, by cause."""
        self.durations = {kind: Durations() for kind in Kind}
        """From an operation's arrival to its answer, waiting included."""
        self.errors: Counter[Reason] = Counter()
        """Operations that failed or were refused, and openings that were."""


class Traffic:
    """Bytes of messages that went through one door, without what the transport adds."""

    __slots__ = ("received_bytes", "sent_bytes")

    def __init__(self) -> None:
        self.received_bytes = 0
        self.sent_bytes = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What is in use at a moment."""

    operations_in_flight: int
    record_bytes: int
    """Of the answers that live sessions keep."""
    kept_records: int
    """Ended sessions whose answers are kept."""
    kept_record_bytes: int
    idle_processes: Mapping[str, int]
    """Processes that wait for a session, by environment."""


class Metrics:
    """Everything that one host counts."""

    __slots__ = (
        "doors",
        "environments",
        "limits",
        "opens_limited",
        "snapshot_bytes",
        "snapshots",
        "snapshots_dropped",
    )

    def __init__(
        self, environments: Iterable[str], limits: Mapping[str, float] | None = None
    ) -> None:
        self.limits = dict(limits or {})
        """What bounds it, by name; doors add theirs."""
        self.opens_limited = 0
        """Openings that were refused since their peer opened too often."""
        self.environments = {name: EnvironmentMetrics() for name in environments}
        self.doors: defaultdict[str, Traffic] = defaultdict(Traffic)
        """By the door's name: `grpc`, `ws`, `mcp`, `http`."""
        self.snapshots = 0
        """Snapshots that are kept."""
        self.snapshot_bytes = 0
        """What they take."""
        self.snapshots_dropped = 0
        """Snapshots that had to make room for others."""
