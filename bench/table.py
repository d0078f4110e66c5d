"""The table: medians, ratios round by round, and what is below its floor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from bench.scenarios import Measured, Row

UNITS = {
    "p50_us": "us",
    "steps_per_s": "steps/s",
    "kib_per_session": "KiB",
    "opens_per_s": "/s",
    "start_s": "s",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A row with what was measured, a pair for each round."""

    row: Row
    rounds: Sequence[tuple[Measured, Measured]]
    """Ours and the reference's."""

    @property
    def ratios(self) -> list[float]:
        """By how much we were better, round by round, ordered."""
        return sorted(self.row.ratio(ours, reference) for ours, reference in self.rounds)

    @property
    def ratio(self) -> float:
        """The median of the ratios."""
        return median(self.ratios)

    @property
    def verdict(self) -> str:
        """Where the ratio stands: at the aim, above the floor, or below it."""
        if self.ratio >= self.row.aim:
            return "aim"
        return "floor" if self.ratio >= self.row.floor else "BELOW"

    def middle(self, side: int, figure: str) -> float | None:
        """Returns the median of a figure of one side, 0 ours and 1 the reference's."""
        found = [pair[side][figure] for pair in self.rounds if figure in pair[side]]
        return median(found) if found else None


def render(results: Sequence[Result]) -> str:
    """Writes the table as Markdown."""
    lines = [
        "| scenario | ours | reference | ratio (rounds) | floor | aim | server CPU, both |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for result in results:
        row, ratios = result.row, result.ratios
        mark = " **below its floor**" if result.verdict == "BELOW" else ""
        lines.append(
            f"| {row.name} | {_shown(result, 0)} | {_shown(result, 1)} "
            f"| {result.ratio:.1f}x ({ratios[0]:.1f} to {ratios[-1]:.1f}){mark} "
            f"| {row.floor:g}x | {row.aim:g}x | {_processor(result)} |"
        )
    return "\n".join(lines)


def _shown(result: Result, side: int) -> str:
    value = result.middle(side, result.row.figure)
    assert value is not None
    unit = UNITS[result.row.figure]
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.2f} {unit}"


def _processor(result: Result) -> str:
    for figure in ("server_us_per_step", "server_us_per_open"):
        ours, reference = result.middle(0, figure), result.middle(1, figure)
        if ours is not None and reference is not None:
            return f"{ours:,.0f} / {reference:,.0f} us"
    return ""
