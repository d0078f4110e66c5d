"""The tables as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench.spread import Checked, Result, Spread

UNITS = {
    "": "x",
    "p50_us": " us",
    "p99_us": " us",
    "p99_ms": " ms",
    "server_us_per_step": " us",
    "client_us_per_step": " us",
    "server_us_per_open": " us",
    "steps_per_s": " steps/s",
    "kib_per_session": " KiB",
    "opens_per_s": "/s",
    "start_s": " s",
    "mib_per_s": " MiB/s",
    "environment_percent": " %",
}


def number(value: float) -> str:
    """Writes a number with three digits, or with all before the point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def shown(figure: Spread | None, name: str) -> str:
    """Writes a figure's median with its unit."""
    return f"{number(figure.middle)}{UNITS[name]}" if figure else ""


def factor(ratio: Spread | None) -> str:
    """Writes a ratio with its spread."""
    if ratio is None:
        return ""
    digits = 1 if ratio.middle >= 10 else 2
    least, most = f"{ratio.least:.{digits}f}", f"{ratio.most:.{digits}f}"
    return f"{ratio.middle:.{digits}f}x ({least} to {most})"


def written(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Writes a table, the first column to the left and all others to the right."""
    marks = "|".join(["---", *["---:"] * (len(header) - 1)])
    lines = (f"| {' | '.join(cells)} |" for cells in rows)
    return "\n".join([f"| {' | '.join(header)} |", f"|{marks}|", *lines])


PROMISED = (
    "scenario", "ours", "reference", "ratio (rounds)", "floor", "aim", "server CPU, both",
    "client CPU, both",
)  # fmt: skip


def promised(results: Sequence[Result]) -> list[list[str]]:
    """Returns the cells of rows that have a floor."""
    lines = []
    for result in results:
        row, ratio = result.row, result.ratio(0)
        mark = " **below its floor**" if result.verdict() == "BELOW" else ""
        lines.append(
            [
                row.name,
                shown(result.figure(0), row.figure) or "failed",
                shown(result.figure(-1), row.figure) or "failed",
                f"{factor(ratio)}{mark}",
                f"{row.floor:g}x",
                f"{row.aim:g}x",
                _both(result, "server_us_per_step", "server_us_per_open"),
                _both(result, "client_us_per_step"),
            ]
        )
    return lines


def _both(result: Result, *names: str) -> str:
    for name in names:
        ours, theirs = result.figure(0, name), result.figure(-1, name)
        if ours and theirs:
            return f"{number(ours.middle)} / {number(theirs.middle)} us"
    return ""


def labels(results: Sequence[Result]) -> list[str]:
    """Returns the names of all sides, each once."""
    return list(dict.fromkeys(side.label for result in results for side in result.row.sides))


def side_by_side(results: Sequence[Result]) -> list[list[str]]:
    """Returns the cells of rows with many sides: figure, ratio to the last, time of both ends."""
    columns = labels(results)
    lines = []
    for result in results:
        places = {side.label: index for index, side in enumerate(result.row.sides)}
        cells = [_cell(result, places[label]) if label in places else "" for label in columns]
        lines.append([result.row.name, *cells])
    return lines


def _cell(result: Result, index: int) -> str:
    if index in result.failed:
        return "failed"
    parts = [shown(result.figure(index), result.row.figure)]
    if index < len(result.row.sides) - 1:
        parts.append(factor(result.ratio(index)))
    server, client = (
        result.figure(index, name) for name in ("server_us_per_step", "client_us_per_step")
    )
    if server and client:
        parts.append(f"{number(server.middle)} + {number(client.middle)} us")
    elif client:
        parts.append(f"{number(client.middle)} us")
    return "; ".join(part for part in parts if part)


LIMITS = ("absolute", "measured", "at most", "")


def limits(checks: Sequence[Checked]) -> list[list[str]]:
    """Returns the cells of absolute figures."""
    lines = []
    for check in checks:
        found, unit = check.measured, UNITS[check.figure]
        name = f"{check.name}: {check.figure}" if check.figure else check.name
        measured = f"{number(found.middle)}{unit} ({number(found.least)} to {number(found.most)})"
        kept = "held" if check.held else "**not held**"
        lines.append([name, measured, f"{check.most:g}{unit}", kept])
    return lines
