"""Charts as SVG: lines on logarithmic axes, and bars of ratios. Colours are the page's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from bench.spread import Spread
from bench.table import number

WIDTH, HEIGHT = 760, 340
LEFT, RIGHT, TOP, BOTTOM = 70, 170, 30, 44
BAR_HEIGHT, NAME_WIDTH, BAR_WIDTH = 22, 420, 320
BINARY_UNITS = ((2**20, "MiB"), (2**10, "KiB"))


@dataclass(frozen=True, slots=True)
class Line:
    """One side along an axis."""

    label: str
    points: Sequence[tuple[float, Spread]]


@dataclass(frozen=True, slots=True)
class Bar:
    """A ratio, with marks for what is promised."""

    label: str
    ratio: Spread
    marks: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class Scale:
    """A logarithmic axis from the least to the most of some values, over some pixels."""

    least: float
    most: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Returns where a value stands."""
        span = math.log(self.most / self.least) or 1.0
        return self.start + (self.end - self.start) * math.log(value / self.least) / span

    def ticks(self) -> list[float]:
        """Returns the powers of ten on it, and what is between them where those are few."""
        first, last = math.floor(math.log10(self.least)), math.floor(math.log10(self.most))
        steps = (1, 2, 5) if self.most / self.least < 100 else (1,)
        found = [step * 10.0**power for power in range(first, last + 1) for step in steps]
        return [tick for tick in found if self.least <= tick <= self.most]


def position(value: float, axis: str) -> str:
    """Writes where on an axis something is."""
    if axis == "bytes":
        for unit_bytes, unit in BINARY_UNITS:
            if value >= unit_bytes:
                return f"{value / unit_bytes:g} {unit}"
    return number(value)


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _rule(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _drawing(width: float, height: float, label: str, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height:.0f}" role="img" aria-label="{escape(label)}">'
        + "".join(parts)
        + "</svg>"
    )


def line_chart(lines: Sequence[Line], *, axis: str, figure: str) -> str:
    """Draws lines with the spread of each point. Values are above 0."""
    lines = [line for line in lines if line.points]
    if not lines:
        return ""
    across = [x for line in lines for x, _ in line.points]
    up = [value for line in lines for _, spread in line.points for value in _ends(spread)]
    x_scale = Scale(min(across), max(across), LEFT, WIDTH - RIGHT)
    y_scale = Scale(min(up) / 1.2, max(up) * 1.2, HEIGHT - BOTTOM, TOP)
    parts = [_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, axis, "middle"), _text(4, 12, figure)]
    for tick in y_scale.ticks():
        y = y_scale.at(tick)
        parts += [
            _rule(LEFT, y, WIDTH - RIGHT, y, "grid"),
            _text(LEFT - 6, y + 4, number(tick), "end"),
        ]
    for tick in sorted(set(across)):
        parts.append(_text(x_scale.at(tick), HEIGHT - BOTTOM + 16, position(tick, axis), "middle"))
    for place, line in enumerate(lines):
        parts.append(_line(line, place, x_scale, y_scale))
    return _drawing(WIDTH, HEIGHT, f"{figure} by {axis}", parts)


def _ends(spread: Spread) -> tuple[float, float]:
    return spread.least, spread.most


def _line(line: Line, place: int, x_scale: Scale, y_scale: Scale) -> str:
    path = " ".join(f"{x_scale.at(x):.1f},{y_scale.at(s.middle):.1f}" for x, s in line.points)
    parts = [f'<polyline points="{path}"/>']
    for x, spread in line.points:
        at = x_scale.at(x)
        tip = f"{line.label}, {number(x)}: {number(spread.middle)}"
        tip += f" ({number(spread.least)} to {number(spread.most)})"
        parts.append(_rule(at, y_scale.at(spread.least), at, y_scale.at(spread.most), "spread"))
        parts.append(
            f'<circle cx="{at:.1f}" cy="{y_scale.at(spread.middle):.1f}" r="4">'
            f"<title>{escape(tip)}</title></circle>"
        )
    y = TOP + 12 + 20 * place
    parts.append(f'<rect x="{WIDTH - RIGHT + 16}" y="{y - 9}" width="10" height="10"/>')
    return (
        f'<g class="series s{place % 8}">{"".join(parts)}</g>'
        + _text(WIDTH - RIGHT + 32, y, line.label)
    )  # fmt: skip


def bar_chart(bars: Sequence[Bar], *, label: str) -> str:
    """Draws ratios from 1 on, with their spread and the marks of each."""
    if not bars:
        return ""
    values = [v for bar in bars for v in (*_ends(bar.ratio), bar.ratio.middle, *bar.marks, 1.0)]
    scale = Scale(min(values) / 1.1, max(values) * 1.1, NAME_WIDTH, NAME_WIDTH + BAR_WIDTH)
    height = BAR_HEIGHT * len(bars) + 30
    parts = []
    for tick in sorted({1.0, *scale.ticks()}):
        x = scale.at(tick)
        parts += [
            _rule(x, 0, x, height - 24, "grid"),
            _text(x, height - 8, f"{number(tick)}x", "middle"),
        ]
    for place, bar in enumerate(bars):
        parts.append(_bar(bar, place * BAR_HEIGHT, scale))
    return _drawing(WIDTH, height, label, parts)


def _bar(bar: Bar, top: float, scale: Scale) -> str:
    one, end = scale.at(1.0), scale.at(bar.ratio.middle)
    middle = top + BAR_HEIGHT / 2
    tip = f"{bar.label}: {bar.ratio.middle:.2f}x ({bar.ratio.least:.2f} to {bar.ratio.most:.2f})"
    below = bool(bar.marks) and bar.ratio.middle < min(bar.marks)
    x, width, height = min(one, end), abs(end - one), BAR_HEIGHT - 8
    parts = [
        f'<rect x="{x:.1f}" y="{top + 4}" width="{width:.1f}" height="{height}">',
        f"<title>{escape(tip)}</title></rect>",
        _rule(scale.at(bar.ratio.least), middle, scale.at(bar.ratio.most), middle, "spread"),
    ]
    marks = [
        _rule(scale.at(mark), top + 2, scale.at(mark), top + BAR_HEIGHT - 2, "mark")
        for mark in bar.marks
    ]
    return (
        _text(NAME_WIDTH - 8, middle + 4, bar.label, "end")
        + f'<g class="series {"below" if below else "s0"}">{"".join(parts)}</g>'
        + "".join(marks)
    )
