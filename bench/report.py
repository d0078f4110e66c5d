"""What was measured, group by group: as Markdown, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from bench import table
from bench.rows import Group
from bench.spread import Checked, Result, Spread, check_growth, check_limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A group with its results."""

    group: Group
    results: Sequence[Result]

    @property
    def promised(self) -> list[Result]:
        """The results that are held to a ratio."""
        return [result for result in self.results if result.row.floor is not None]

    @property
    def others(self) -> list[Result]:
        """The results that are shown side by side."""
        return [result for result in self.results if result.row.floor is None]

    @property
    def checks(self) -> list[Checked]:
        """The absolute figures that are held to a limit."""
        found = [check for result in self.results for check in check_limits(result)]
        growth = self.group.growth
        return found + (check_growth(self.results, growth) if growth else [])

    def tables(self) -> list[tuple[Sequence[str], list[list[str]]]]:
        """Returns the headers and cells of its tables."""
        found: list[tuple[Sequence[str], list[list[str]]]] = []
        if self.promised:
            found.append((table.PROMISED, table.promised(self.promised)))
        if self.others:
            header = ["scenario", *table.labels(self.others)]
            found.append((header, table.side_by_side(self.others)))
        if self.checks:
            found.append((table.LIMITS, table.limits(self.checks)))
        return found


@dataclass(slots=True, kw_only=True)
class Report:
    """All that one run has measured."""

    machine: dict[str, object]
    load_before: tuple[float, float, float]
    load_after: tuple[float, float, float] = (0, 0, 0)
    parts: list[Part] = field(default_factory=list)

    def drop_unmeasured(self) -> None:
        """Forgets the rows of which no round was completed."""
        self.parts = [
            Part(group=part.group, results=measured)
            for part in self.parts
            if (measured := [result for result in part.results if result.rounds])
        ]

    def summary(self) -> str:
        """Says in a line where and when the figures are from."""
        return (
            f"Commit {self.machine['commit']}, {self.machine['cores']} cores, load average "
            f"{self.load_before[0]:.1f} before and {self.load_after[0]:.1f} after."
        )

    def markdown(self) -> str:
        """Writes all tables."""
        found = []
        for part in self.parts:
            found.append(f"## {part.group.title}\n\n{part.group.about}")
            found += [table.written(header, rows) for header, rows in part.tables()]
        return "\n\n".join([*found, self.summary()])

    def content(self) -> dict[str, object]:
        """Returns all figures, for JSON."""
        return {
            "machine": self.machine,
            "load_average_before": self.load_before,
            "load_average_after": self.load_after,
            "groups": [
                {
                    "title": part.group.title,
                    "rows": [_row(result) for result in part.results],
                    "checks": [asdict(check) | {"held": check.held} for check in part.checks],
                }
                for part in self.parts
            ],
        }


def _row(result: Result) -> dict[str, object]:
    def spread(found: Spread | None) -> dict[str, float] | None:
        return asdict(found) if found else None

    return asdict(result.row) | {
        "load_average": result.load_average,
        "verdict": result.verdict(),
        "measured": [
            {
                "side": side.label,
                "failed": result.failed.get(index),
                "median": spread(result.figure(index)),
                "ratio": spread(result.ratio(index)),
                "rounds": [sides[index] for sides in result.rounds],
            }
            for index, side in enumerate(result.row.sides)
        ],
    }
