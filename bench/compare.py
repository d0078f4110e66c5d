"""`python -m bench.compare BASE`: two revisions of ours, in one run, in alternating rounds.

Beside the clock's time it compares the processor time that a step takes of the server and of the
client, which says more on a machine that others use.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace

from bench.fleet import Fleet
from bench.groups import all_rows
from bench.processes import CHECKOUT, BenchError
from bench.rows import Row
from bench.runner import run_row, say
from bench.scenarios import PROMISES
from bench.selection import INTERRUPTED, Interruptible, select
from bench.spread import Result, middle_half
from bench.table import factor, shown, written
from bench.trees import commit_of, tree_of

WORKING_TREE = "working tree"
PROCESSOR = (("server_us_per_step", "server_us_per_open"), ("client_us_per_step",))


def rows_of_ours(rows: Iterable[Row]) -> list[Row]:
    """Returns each side of ours among some rows once, as a row of its own."""
    found: dict[Row, Row] = {}
    for row in rows:
        for side in row.sides:
            if side.server.kind == "ours":
                suffix = "" if side.label == "ours" else f" ({side.label})"
                name = row.name.partition(", against")[0] + suffix
                sides = replace(side, label="head"), replace(side, label="base")
                alone = replace(row, sides=sides, floor=None, aim=None, limits=(), at=0)
                found.setdefault(replace(alone, name=""), replace(alone, name=name))
    return list(found.values())


def render(results: Sequence[Result], base: str, head: str) -> str:
    """Writes the table as Markdown; above 1 the head is better."""
    lines = []
    for result in results:
        name, figure = result.row.name, result.row.figure
        before, after = shown(result.figure(1), figure), shown(result.figure(0), figure)
        processor = [_processor(result, names) for names in PROCESSOR]
        lines.append(
            [
                name,
                before or "failed",
                after or "failed",
                factor(middle_half(result.ratios(0))),
                *processor,
            ]
        )
    return written(["scenario", base, head, "better by", "server CPU", "client CPU"], lines)


def _processor(result: Result, names: Sequence[str]) -> str:
    for name in names:
        if ratio := middle_half(result.ratios(0, name)):
            before, after = shown(result.figure(1, name), name), shown(result.figure(0, name), name)
            return f"{before} to {after}: {factor(ratio)}"
    return ""


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.compare", description=__doc__)
    parser.add_argument("base", help="the revision to compare with")
    parser.add_argument("--head", help="the other revision (the working tree as it is)")
    parser.add_argument("--only", default="", help="only rows whose name matches this")
    parser.add_argument("--quick", action="store_true", help="5 rounds of half a second")
    parser.add_argument("--rounds", type=int, help="rounds of each row (12)")
    parser.add_argument("--seconds", type=float, help="seconds of each measurement (0.7)")
    given = parser.parse_args(arguments)
    given.rounds = given.rounds or (5 if given.quick else 12)
    given.seconds = given.seconds or (0.5 if given.quick else 0.7)
    try:
        given.rows = select(rows_of_ours(all_rows() if given.only else PROMISES), given.only)
        given.base_name = commit_of(given.base)
        given.head_name = commit_of(given.head) if given.head else WORKING_TREE
    except BenchError as error:
        parser.error(str(error))
    return given


def main() -> None:
    given = parse()
    before = os.getloadavg()
    results: list[Result] = []
    with Interruptible() as interruptible, ExitStack() as stack:
        say(f"laying out {given.base_name}")
        base_tree = stack.enter_context(tree_of(given.base_name))
        head_tree = stack.enter_context(tree_of(given.head_name)) if given.head else CHECKOUT
        base = stack.enter_context(Fleet(base_tree))
        head = stack.enter_context(Fleet(head_tree))
        for place, row in enumerate(given.rows):
            for fleet in (base, head):
                fleet.keep(given.rows[place:])
                fleet.prepare(row)
            result = Result(row=row)
            results.append(result)
            run_row(
                result, [head.measure, base.measure], rounds=given.rounds, seconds=given.seconds
            )
    done = [result for result in results if result.rounds]
    print(render(done, given.base_name, given.head_name))
    print(
        f"\n{given.rounds} rounds of {given.seconds:g} s; load average {before[0]:.1f} before, "
        f"{os.getloadavg()[0]:.1f} after. Medians; ratios round by round, with their quartiles; "
        "above 1 is better."
    )
    if interruptible.happened:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
