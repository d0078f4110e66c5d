"""Rounds of a row, and what is computed of them: medians, and ratios round by round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from bench.jobs import Measured
from bench.rows import Row, better_by


@dataclass(frozen=True, slots=True)
class Spread:
    """A median, and the least and the most."""

    middle: float
    least: float
    most: float


def spread_of(values: Sequence[float]) -> Spread | None:
    """Returns the spread of some values; none of none."""
    return Spread(median(values), min(values), max(values)) if values else None


@dataclass(slots=True, kw_only=True)
class Result:
    """A row with what was measured so far."""

    row: Row
    rounds: list[tuple[Measured, ...]] = field(default_factory=list)
    """One measurement of each side, in their order."""
    failed: str = ""
    """Why it was given up."""

    def figure(self, side: int, name: str) -> Spread | None:
        """Returns a figure of one side."""
        return spread_of([sides[side][name] for sides in self.rounds if name in sides[side]])

    def ratio(self, side: int, name: str = "", *, baseline: int = -1) -> Spread | None:
        """Returns by how much one side is better than another, as a rule than the last."""
        name = name or self.row.figure
        ratios = [better_by(name, sides[side], sides[baseline]) for sides in self.rounds]
        return spread_of([ratio for ratio in ratios if ratio is not None])
