"""A row: a scenario, the sides that are measured in it, and what is promised of it."""

from __future__ import annotations

from dataclasses import dataclass

from bench.jobs import Measured
from bench.sides import Side

LOWER_IS_BETTER = frozenset(
    {"p50_us", "p99_us", "p99_ms", "kib_per_session", "start_s", "environment_percent",
     "server_us_per_step", "client_us_per_step", "server_us_per_open"}
)  # fmt: skip
"""Figures of which less is better; of all others more is."""


def better_by(figure: str, measured: Measured, baseline: Measured) -> float | None:
    """Returns by how much one is better than another; below 1 it is worse.

    There is none where a figure was not measured, or is nothing.
    """
    a, b = measured.get(figure), baseline.get(figure)
    if not a or not b:
        return None
    return b / a if figure in LOWER_IS_BETTER else a / b


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """What an absolute figure of the first side is to stay under."""

    figure: str
    most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A scenario on some sides, and the figure by which they are compared."""

    name: str
    figure: str = "steps_per_s"
    sides: tuple[Side, ...]
    """The first is what promises are about; the last is what the others are compared with."""
    mode: str = "step"
    sessions: int = 1
    action: str = "tiny"
    size_bytes: int = 0
    pause_s: float = 0.0
    fresh: bool = False
    """Whether each measurement has a server of its own."""
    floor: float | None = None
    """The ratio that is promised."""
    aim: float | None = None
    """The ratio that is hoped for."""
    limits: tuple[Limit, ...] = ()
    at: float = 0
    """Where it stands on the axis of a plot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """By what factor a figure may grow between two points of an axis."""

    start: int
    end: int
    most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Rows that are shown together."""

    title: str
    about: str
    """What is read from it."""
    rows: tuple[Row, ...]
    rounds: int
    seconds: float
    """How long each measurement takes, set-up apart."""
    axis: str = ""
    """What the rows differ in, for those that are plotted as lines."""
    growth: Growth | None = None
    quick: bool = False
    """Whether `--quick` runs it, with a round less and half the time."""
