"""The tables as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from bench.spread import Result, Spread

UNITS = {
    "p50_us": "us",
    "p99_us": "us",
    "p99_ms": "ms",
    "server_us_per_step": "us",
    "client_us_per_step": "us",
    "server_us_per_open": "us",
    "steps_per_s": "steps/s",
    "kib_per_session": "KiB",
    "opens_per_s": "/s",
    "start_s": "s",
    "mib_per_s": "MiB/s",
    "environment_percent": "%",
}


def shown(figure: Spread | None, name: str) -> str:
    """Writes a figure's median with its unit."""
    if figure is None:
        return ""
    value = figure.middle
    return f"{value:,.0f} {UNITS[name]}" if abs(value) >= 100 else f"{value:.3g} {UNITS[name]}"


def verdict(result: Result) -> str:
    """Tells where a row stands: at its aim, above its floor, or below it."""
    ratio, row = result.ratio(0), result.row
    if ratio is None or row.floor is None or row.aim is None:
        return ""
    if ratio.middle >= row.aim:
        return "aim"
    return "floor" if ratio.middle >= row.floor else "BELOW"


def promises(results: Sequence[Result]) -> str:
    """Writes the table of rows with two sides and a floor."""
    lines = [
        "| scenario | ours | reference | ratio (rounds) | floor | aim | server CPU, both |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for result in results:
        row, ratio = result.row, result.ratio(0)
        if ratio is None:
            lines.append(f"| {row.name} | failed | | | {row.floor:g}x | {row.aim:g}x | |")
            continue
        mark = " **below its floor**" if verdict(result) == "BELOW" else ""
        lines.append(
            f"| {row.name} | {shown(result.figure(0, row.figure), row.figure)} "
            f"| {shown(result.figure(-1, row.figure), row.figure)} "
            f"| {ratio.middle:.1f}x ({ratio.least:.1f} to {ratio.most:.1f}){mark} "
            f"| {row.floor:g}x | {row.aim:g}x | {_processor(result)} |"
        )
    return "\n".join(lines)


def _processor(result: Result) -> str:
    for name in ("server_us_per_step", "server_us_per_open"):
        ours, theirs = result.figure(0, name), result.figure(-1, name)
        if ours and theirs:
            return f"{ours.middle:,.0f} / {theirs.middle:,.0f} us"
    return ""
