"""The report as one page of HTML that needs nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from html import escape

from bench.plot import Bar, Line, bar_chart, line_chart
from bench.report import Part, Report

STYLE = """
:root { color-scheme: light dark; --text: #1c2126; --quiet: #6b7580; --rule: #d9dee3; --back: #fff;
  --below: #b3261e; --c0: #2463eb; --c1: #0f8a5f; --c2: #b45309; --c3: #7c3aed; --c4: #64748b;
  --c5: #111827; --c6: #be185d; --c7: #0e7490; }
@media (prefers-color-scheme: dark) { :root { --text: #e6e9ec; --quiet: #98a2ad; --rule: #353c44;
  --back: #15191d; --below: #ff8a80; --c0: #7aa5ff; --c1: #4fd1a1; --c2: #f0a75b; --c3: #b79bff;
  --c4: #a3afbd; --c5: #f3f4f6; --c6: #ff86bb; --c7: #5ccbe0; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--back);
  max-width: 1100px; margin: 2rem auto; padding: 0 1rem; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.5rem; }
.about, dl { color: var(--quiet); } .scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13px; margin: 1rem 0;
  font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--rule); text-align: right; }
th:first-child, td:first-child { text-align: left; } strong { color: var(--below); }
svg { max-width: 820px; width: 100%; height: auto; }
svg text { font-size: 12px; fill: var(--text); }
.grid { stroke: var(--rule); } .mark { stroke: var(--text); stroke-width: 2; }
.series polyline { fill: none; stroke: currentColor; stroke-width: 2; }
.series rect, .series circle { fill: currentColor; }
.spread { stroke: var(--quiet); stroke-width: 2; } .below { color: var(--below); }
""" + "".join(f".s{place} {{ color: var(--c{place}); }}\n" for place in range(8))
TITLES = {
    "steps_per_s": "steps/s",
    "server_us_per_step": "the server's processor time of a step, us",
    "kib_per_session": "the server's memory of a session, KiB",
}
READING = (
    "Medians, and in brackets the least and the most of the rounds. Ratios are to the last column, "
    "round by round; above 1 is better. Times with a + are the server's and the client's processor "
    "time of a step."
)


def render(report: Report) -> str:
    """Writes the page."""
    sections = "".join(_section(part) for part in report.parts)
    machine = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(json.dumps(value))}</dd>"
        for name, value in report.machine.items()
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>openenv-grpc: measured speed</title><style>{STYLE}</style></head><body>"
        f"<h1>Measured speed</h1><p>{escape(report.summary())} {READING}</p>"
        f"{sections}<h2>Machine</h2><dl>{machine}</dl></body></html>"
    )


def _section(part: Part) -> str:
    tables = "".join(_table(header, rows) for header, rows in part.tables())
    return (
        f"<section><h2>{escape(part.group.title)}</h2>"
        f'<p class="about">{escape(part.group.about)}</p>{_charts(part)}{tables}</section>'
    )


def _charts(part: Part) -> str:
    if part.group.axis:
        return line_chart(
            _lines(part), axis=part.group.axis, figure=TITLES[part.results[0].row.figure]
        )
    bars = [
        Bar(result.row.name, ratio, [result.row.floor, result.row.aim])
        for result in part.promised
        if (ratio := result.ratio(0)) and result.row.floor and result.row.aim
    ]
    bars += [
        Bar(f"{result.row.name}: {side.label}", ratio)
        for result in part.others
        for index, side in enumerate(result.row.sides[:-1])
        if (ratio := result.ratio(index))
    ]
    return bar_chart(bars, label=f"{part.group.title}: ratios")


def _lines(part: Part) -> list[Line]:
    return [
        Line(
            side.label,
            [
                (result.row.at, figure)
                for result in part.results
                if (figure := result.figure(index)) and figure.least > 0
            ],
        )
        for index, side in enumerate(part.results[0].row.sides)
    ]


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "".join(f"<tr>{''.join(f'<td>{_cell(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _cell(text: str) -> str:
    return re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", escape(text))
