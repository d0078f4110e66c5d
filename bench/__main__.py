"""`python -m bench`: runs all rows in turn, round by round, and prints the table."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from bench.processes import (
    CHECKOUT,
    REFERENCE,
    Server,
    our_server,
    reference_server,
    serving,
)
from bench.scenarios import REFERENCE_PREFIX, ROWS, START, Measured, Row, Side
from bench.table import Result, render


def command(server: str) -> list[str]:
    """Returns what starts a server."""
    if server.startswith(REFERENCE_PREFIX):
        return reference_server(server.removeprefix(REFERENCE_PREFIX))
    return our_server(server)


def say(text: str) -> None:
    """Tells how far it is, apart from the table."""
    print(text, file=sys.stderr, flush=True)


def measure_starts(rounds: int) -> Result:
    """Starts both servers in turn."""
    pairs: list[tuple[Measured, Measured]] = []
    for number in range(rounds):
        pair = []
        for side in (START.ours, START.reference):
            with serving(command(side.server)) as server:
                pair.append({"start_s": server.start_s})
        pairs.append((pair[0], pair[1]))
        say(f"round {number + 1}: start {pair[0]['start_s']:.2f} s, {pair[1]['start_s']:.2f} s")
    return Result(row=START, rounds=pairs)


def measure_fresh(row: Row, side: Side, seconds: float) -> Measured:
    """Measures one side on a server of its own: one that had sessions reuses their memory."""
    with serving(command(side.server)) as server:
        return row.measure(side, server, seconds)


def measure_rows(rows: list[Row], rounds: int, seconds: float) -> list[Result]:
    """Runs each row once a round, with all servers up throughout but where memory is measured."""
    pairs: dict[str, list[tuple[Measured, Measured]]] = {row.name: [] for row in rows}
    needed = {side.server for row in rows for side in (row.ours, row.reference)}
    with ExitStack() as stack:
        servers: dict[str, Server] = {
            name: stack.enter_context(serving(command(name))) for name in sorted(needed)
        }
        for number in range(rounds):
            for row in rows:
                ours, reference = (
                    measure_fresh(row, side, seconds)
                    if row.mode == "idle"
                    else row.measure(side, servers[side.server], seconds)
                    for side in (row.ours, row.reference)
                )
                pairs[row.name].append((ours, reference))
                say(f"round {number + 1}: {row.name}: {row.ratio(ours, reference):.2f}x")
    return [Result(row=row, rounds=pairs[row.name]) for row in rows]


def write(results: list[Result], path: Path, load: tuple[float, float, float]) -> None:
    """Writes all figures as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "load_average_before": load,
        "load_average_after": os.getloadavg(),
        "cores": os.cpu_count(),
        "rows": [
            {**asdict(result.row), "ratio": result.ratio, "rounds": result.rounds}
            for result in results
        ],
    }
    path.write_text(json.dumps(content, indent=1), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="about two minutes: fewer rounds")
    parser.add_argument("--rounds", type=int, help="rounds of each row (5, or 2 with --quick)")
    parser.add_argument("--seconds", type=float, help="seconds of each load (2, or 1)")
    parser.add_argument("--rows", default="", help="only rows whose name contains this")
    given = parser.parse_args()
    if sys.platform != "linux":
        parser.error("it reads processor time and memory from /proc, which Linux alone has")
    if not Path(REFERENCE).exists():
        parser.error(f"{REFERENCE} is missing: run `make bench`, which sets it up")
    rounds = given.rounds or (2 if given.quick else 5)
    seconds = given.seconds or (1.0 if given.quick else 2.0)
    load = os.getloadavg()
    results = measure_rows([row for row in ROWS if given.rows in row.name], rounds, seconds)
    if given.rows in START.name:
        results.append(measure_starts(rounds))
    path = CHECKOUT / "bench" / "results" / f"{time.strftime('%Y-%m-%d-%H%M%S')}.json"
    write(results, path, load)
    print(render(results))
    print(f"\n{rounds} rounds; load average {load[0]:.1f} before, {os.getloadavg()[0]:.1f} after.")


if __name__ == "__main__":
    main()
