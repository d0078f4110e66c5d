"""`python -m bench`: measures this project beside others, row by row.

It prints the tables, and writes them as JSON and as a page with plots into `bench/results`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench import page
from bench.fleet import Fleet
from bench.groups import GROUPS
from bench.machine import describe
from bench.processes import CHECKOUT, REFERENCE, BenchError
from bench.report import Part, Report
from bench.rows import Group
from bench.runner import run_row, say
from bench.selection import INTERRUPTED, Interruptible, select
from bench.spread import Result

RESULTS = CHECKOUT / "bench" / "results"


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="about two minutes: only what is promised, and sooner"
    )
    parser.add_argument("--only", default="", help="only rows whose name matches this")
    parser.add_argument("--rounds", type=int, help="rounds of each row (1 to 3)")
    parser.add_argument("--seconds", type=float, help="seconds of each measurement (0.6 to 2)")
    parser.add_argument(
        "--folder", type=Path, default=RESULTS, help="where JSON and page are written"
    )
    parser.add_argument("--list", action="store_true", help="print the rows' names, and end")
    given = parser.parse_args(arguments)
    if sys.platform != "linux":
        parser.error("it reads processor time and memory from /proc, which Linux alone has")
    if not Path(REFERENCE).exists():
        parser.error(f"{REFERENCE} is missing: run `make bench`, which sets it up")
    try:
        given.groups = chosen(given)
    except BenchError as error:
        parser.error(str(error))
    return given


def chosen(given: argparse.Namespace) -> list[Group]:
    """Returns the groups with the rows, rounds and seconds that the command line asks for.

    Raises:
        BenchError: no row matches.
    """
    groups = [group for group in GROUPS if group.quick or given.only or not given.quick]
    wanted = set(select([row for group in groups for row in group.rows], given.only))
    found = []
    for group in groups:
        rows = tuple(row for row in group.rows if row in wanted)
        quick = given.quick
        rounds = given.rounds or (max(1, group.rounds - 1) if quick else group.rounds)
        seconds = given.seconds or (group.seconds / 2 if quick else group.seconds)
        if rows:
            found.append(replace(group, rows=rows, rounds=rounds, seconds=seconds))
    return found


def measure(groups: Sequence[Group], report: Report) -> bool:
    """Runs all rows, and adds to a report what there is; tells whether all were run."""
    remaining = [row for group in groups for row in group.rows]
    with Interruptible() as interruptible, Fleet() as fleet:
        for group in groups:
            results: list[Result] = []
            report.parts.append(Part(group=group, results=results))
            say(f"== {group.title}")
            for row in group.rows:
                fleet.keep(remaining)
                fleet.prepare(row)
                remaining.remove(row)
                results.append(Result(row=row))
                measures = [fleet.measure] * len(row.sides)
                run_row(results[-1], measures, rounds=group.rounds, seconds=group.seconds)
    report.drop_unmeasured()
    report.load_after = os.getloadavg()
    return not interruptible.happened


def write(report: Report, folder: Path) -> Path:
    """Writes JSON and page, and returns the page's path."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = time.strftime("%Y-%m-%d-%H%M%S")
    content = json.dumps(report.content(), indent=1)
    (folder / f"{stem}.json").write_text(content, encoding="utf-8")
    path = folder / f"{stem}.html"
    path.write_text(page.render(report), encoding="utf-8")
    return path


def main() -> None:
    given = parse()
    if given.list:
        print("\n".join(row.name for group in given.groups for row in group.rows))
        return
    report = Report(machine=describe(), load_before=os.getloadavg())
    completed = measure(given.groups, report)
    path = write(report, given.folder)
    print(report.markdown())
    say(f"written to {path} and its .json")
    if not completed:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
