"""Runs rows: round by round, the sides in turn."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

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


def run_row(
    result: Result, measures: list[Measure], sides: list[Side], *, rounds: int, seconds: float
) -> None:
    """Measures the sides of a row, each by its own means, and adds the rounds to a result.

    A failure ends the row, and is kept in the result: the other rows can go on.
    """
    row = result.row
    for number in range(rounds):
        measured: dict[int, Measured] = {}
        for index in in_turn(len(sides), number):
            try:
                measured[index] = measures[index](row, sides[index], row.seconds or seconds)
            except BenchError as error:
                result.failed = f"{sides[index].label}: {error}"
                say(f"{row.name}: FAILED: {result.failed}")
                return
        result.rounds.append(tuple(measured[index] for index in range(len(sides))))
        ratio = result.ratio(0)
        say(f"{row.name}: round {number + 1} of {rounds}: {ratio.middle if ratio else 0:.2f}x")
