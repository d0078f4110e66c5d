"""Rows are run round by round, and one side's failure leaves the others."""

from __future__ import annotations

from bench.jobs import Measured
from bench.processes import BenchError
from bench.rows import Row
from bench.runner import in_turn, run_row
from bench.scenarios import PROMISES
from bench.sides import Side
from bench.spread import Result

ROW = next(row for row in PROMISES if row.figure == "steps_per_s")


def test_the_sides_take_turns_in_going_first() -> None:
    assert [in_turn(3, number) for number in range(3)] == [[0, 1, 2], [2, 1, 0], [0, 1, 2]]


def test_every_round_measures_every_side_for_as_long_as_it_is_told() -> None:
    calls: list[tuple[str, float]] = []

    def measure(row: Row, side: Side, seconds: float) -> Measured:
        calls.append((side.label, seconds))
        return {row.figure: float(len(calls))}

    result = Result(row=ROW)
    run_row(result, [measure, measure], rounds=2, seconds=0.5)
    ours, theirs = (side.label for side in ROW.sides)
    assert calls == [(ours, 0.5), (theirs, 0.5), (theirs, 0.5), (ours, 0.5)]
    assert result.rounds == [
        ({ROW.figure: 1.0}, {ROW.figure: 2.0}),
        ({ROW.figure: 4.0}, {ROW.figure: 3.0}),
    ]


def test_a_side_that_fails_is_not_tried_again_and_the_other_goes_on() -> None:
    tried = []

    def fail(row: Row, side: Side, seconds: float) -> Measured:
        tried.append(side)
        raise BenchError("it did not start")

    result = Result(row=ROW)
    run_row(result, [fail, lambda row, side, seconds: {row.figure: 5.0}], rounds=3, seconds=0.1)
    assert len(tried) == 1
    assert result.failed == {0: "it did not start"}
    assert result.ratio(0) is None
    middle = result.figure(1)
    assert middle is not None
    assert middle.middle == 5.0
