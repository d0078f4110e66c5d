"""Rounds of a row, and what is computed of them: medians, and ratios round by round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median, quantiles

from bench.jobs import Measured
from bench.rows import Growth, Limit, Row, better_by


@dataclass(frozen=True, slots=True)
class Spread:
    """A median, and the least and the most."""

    middle: float
    least: float
    most: float


def spread_of(values: Sequence[float]) -> Spread | None:
    """Returns the spread of some values; none of none."""
    return Spread(median(values), min(values), max(values)) if values else None


def middle_half(values: Sequence[float]) -> Spread | None:
    """Returns the median and the quartiles, which say more than the ends where rounds are many."""
    if len(values) < 2:
        return spread_of(values)
    least, middle, most = quantiles(values, method="inclusive")
    return Spread(middle, least, most)


@dataclass(slots=True, kw_only=True)
class Result:
    """A row with what was measured so far."""

    row: Row
    rounds: list[tuple[Measured, ...]] = field(default_factory=list)
    """One measurement of each side, in their order; an empty one of a side that failed."""
    failed: dict[int, str] = field(default_factory=dict)
    """Why a side was given up, by its place."""
    load_average: float = 0.0
    """The machine's, of one minute, when the row was done."""

    def figure(self, side: int, name: str = "") -> Spread | None:
        """Returns a figure of one side, as a rule the row's own."""
        name = name or self.row.figure
        return spread_of([sides[side][name] for sides in self.rounds if name in sides[side]])

    def ratios(self, side: int, name: str = "") -> list[float]:
        """Returns by how much one side is better than the last, round by round."""
        name = name or self.row.figure
        ratios = [better_by(name, sides[side], sides[-1]) for sides in self.rounds]
        return [ratio for ratio in ratios if ratio is not None]

    def ratio(self, side: int, name: str = "") -> Spread | None:
        """Returns the spread of the ratios of one side."""
        return spread_of(self.ratios(side, name))

    def verdict(self) -> str:
        """Tells where the row stands: at its aim, above its floor, or below it."""
        ratio = self.ratio(0)
        if ratio is None or self.row.floor is None or self.row.aim is None:
            return ""
        if ratio.middle >= self.row.aim:
            return "aim"
        return "floor" if ratio.middle >= self.row.floor else "BELOW"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """An absolute figure beside what it is to stay under."""

    name: str
    figure: str
    """The figure's name; empty for a factor."""
    measured: Spread
    most: float

    @property
    def held(self) -> bool:
        """Whether it does, by the median."""
        return self.measured.middle <= self.most


def check_limits(result: Result) -> list[Checked]:
    """Returns the absolute figures of a row that have a limit."""

    def checked(limit: Limit) -> Checked | None:
        measured = result.figure(0, limit.figure)
        if measured is None:
            return None
        name = result.row.name
        return Checked(name=name, figure=limit.figure, measured=measured, most=limit.most)

    return [found for limit in result.row.limits if (found := checked(limit))]


def check_growth(results: Sequence[Result], growth: Growth) -> list[Checked]:
    """Returns by what factor the figure of each side grows between two points of an axis."""
    ends = {result.row.at: result for result in results}
    if growth.start not in ends or growth.end not in ends:
        return []
    first, last = ends[growth.start], ends[growth.end]
    found = []
    for index, side in enumerate(first.row.sides):
        before, after = first.figure(index), last.figure(index)
        if before and after:
            factor = after.middle / before.middle
            found.append(
                Checked(
                    name=f"{first.row.figure}, {side.label}: "
                    f"from {growth.start:,} to {growth.end:,} sessions",
                    figure="", measured=Spread(factor, factor, factor), most=growth.most,
                )
            )  # fmt: skip
    return found
