"""`python -m bench`: measures this project beside others, row by row, and prints the tables."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.fleet import Fleet
from bench.processes import REFERENCE, BenchError
from bench.runner import run_row
from bench.scenarios import PROMISES
from bench.selection import interruptible, select
from bench.spread import Result
from bench.table import promises


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="about two minutes: fewer rounds")
    parser.add_argument("--only", default="", help="only rows whose name matches this")
    parser.add_argument("--rounds", type=int, help="rounds of each row")
    parser.add_argument("--seconds", type=float, help="seconds of each measurement")
    given = parser.parse_args(arguments)
    if sys.platform != "linux":
        parser.error("it reads processor time and memory from /proc, which Linux alone has")
    if not Path(REFERENCE).exists():
        parser.error(f"{REFERENCE} is missing: run `make bench`, which sets it up")
    given.rounds = given.rounds or (2 if given.quick else 5)
    given.seconds = given.seconds or (0.7 if given.quick else 1.5)
    try:
        given.rows = select(PROMISES, given.only)
    except BenchError as error:
        parser.error(str(error))
    return given


def main() -> None:
    given = parse()
    before = os.getloadavg()
    results: list[Result] = []
    with interruptible(), Fleet() as fleet:
        for row in given.rows:
            result = Result(row=row)
            results.append(result)
            run_row(
                result, [fleet.measure] * len(row.sides), list(row.sides),
                rounds=given.rounds, seconds=given.seconds,
            )  # fmt: skip
    print(promises([result for result in results if result.rounds or result.failed]))
    print(
        f"\n{given.rounds} rounds of {given.seconds:g} s; load average {before[0]:.1f} before, "
        f"{os.getloadavg()[0]:.1f} after."
    )


if __name__ == "__main__":
    main()
