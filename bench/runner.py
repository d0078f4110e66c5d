"""Runs rows: round by round, the sides in turn."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence

from bench.jobs import Measured
from bench.processes import BenchError
from bench.rows import Row
from bench.sides import Side
from bench.spread import Result

Measure = Callable[[Row, Side, float], Measured]


def say(text: str) -> None:
    """Tells how far it is, apart from the tables."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def in_turn(count: int, number: int) -> list[int]:
    """Returns the order of so many sides in a round: the other way round in every second."""
    order = list(range(count))
    return order if number % 2 == 0 else order[::-1]


def run_row(result: Result, measures: Sequence[Measure], *, rounds: int, seconds: float) -> None:
    """Measures the sides of a row, each by its own means, and adds the rounds to a result.

    A side that fails is not tried again in this row, and the reason is kept in the result.
    """
    row = result.row
    for number in range(rounds):
        measured: list[Measured] = [{} for _ in row.sides]
        for index in in_turn(len(row.sides), number):
            if index in result.failed:
                continue
            side = row.sides[index]
            try:
                measured[index] = measures[index](row, side, seconds)
            except BenchError as error:
                result.failed[index] = str(error)
                say(f"{row.name}: {side.label} FAILED: {error}")
        result.rounds.append(tuple(measured))
        result.load_average = os.getloadavg()[0]
        say(f"{row.name}: round {number + 1} of {rounds}: {_progress(result)}")


def _progress(result: Result) -> str:
    found = []
    for index, side in enumerate(result.row.sides):
        value = result.rounds[-1][index].get(result.row.figure)
        found.append(f"{side.label} {'failed' if value is None else f'{value:,.5g}'}")
    return ", ".join(found)
