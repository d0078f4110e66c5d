"""`python -m bench.compare BASE`: two revisions of ours, in one run, in alternating rounds.

Beside the clock's time it compares the processor time that a step takes of the server and of the
client, which says more on a machine that others use.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

from bench.fleet import Fleet
from bench.processes import CHECKOUT, BenchError
from bench.rows import Row
from bench.runner import run_row, say
from bench.scenarios import PROMISES
from bench.selection import INTERRUPTED, Interruptible, select
from bench.spread import Result, Spread
from bench.table import shown
from bench.trees import commit_of, tree_of

WORKING_TREE = "working tree"
PROCESSOR = ("server_us_per_step", "client_us_per_step")


def rows_of_ours() -> list[Row]:
    """Returns each of our sides once, as a row of its own."""
    rows: dict[object, Row] = {}
    for row in PROMISES:
        for side in row.sides:
            if side.server.kind == "ours":
                seen = (side.server, side.client, side.door, side.mode or row.mode, row.sessions)
                suffix = "" if side.label == "ours" else f" ({side.label})"
                name = row.name.partition(", against")[0] + suffix
                sides = replace(side, label="head"), replace(side, label="base")
                rows.setdefault(seen, replace(row, name=name, sides=sides))
    return list(rows.values())


def render(results: Sequence[Result], base: str, head: str) -> str:
    """Writes the table as Markdown; above 1 the head is better."""
    lines = [
        f"| scenario | {base} | {head} | better by | server CPU a step | client CPU a step |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for result in results:
        if result.ratio(0) is None:
            lines.append(f"| {result.row.name} | failed | | | | |")
            continue
        figure = result.row.figure
        processor = (
            f"{shown(result.figure(1, name), name)} to {shown(result.figure(0, name), name)}: "
            f"{factor(result.ratio(0, name))}"
            if result.ratio(0, name)
            else ""
            for name in PROCESSOR
        )
        lines.append(
            f"| {result.row.name} | {shown(result.figure(1, figure), figure)} "
            f"| {shown(result.figure(0, figure), figure)} | {factor(result.ratio(0))} | "
            + " | ".join(processor)
            + " |"
        )
    return "\n".join(lines)


def factor(ratio: Spread | None) -> str:
    """Writes a ratio with its spread."""
    return f"{ratio.middle:.2f}x ({ratio.least:.2f} to {ratio.most:.2f})" if ratio else ""


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.compare", description=__doc__)
    parser.add_argument("base", help="the revision to compare with")
    parser.add_argument("--head", help="the other revision (the working tree as it is)")
    parser.add_argument("--only", default="", help="only rows whose name matches this")
    parser.add_argument("--quick", action="store_true", help="3 rounds of 0.7 seconds")
    parser.add_argument("--rounds", type=int, help="rounds of each row (6)")
    parser.add_argument("--seconds", type=float, help="seconds of each measurement (1.5)")
    given = parser.parse_args(arguments)
    given.rounds = given.rounds or (3 if given.quick else 6)
    given.seconds = given.seconds or (0.7 if given.quick else 1.5)
    try:
        given.rows = select(rows_of_ours(), given.only)
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
            result = Result(row=row)
            results.append(result)
            run_row(
                result, [head.measure, base.measure], rounds=given.rounds, seconds=given.seconds
            )
    done = [result for result in results if result.rounds]
    print(render(done, given.base_name, given.head_name))
    print(
        f"\n{given.rounds} rounds of {given.seconds:g} s; load average {before[0]:.1f} before, "
        f"{os.getloadavg()[0]:.1f} after. Medians; ratios round by round, above 1 is better."
    )
    if interruptible.happened:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
