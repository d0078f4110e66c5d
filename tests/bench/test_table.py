"""The benchmark's arithmetic: ratios round by round, medians, floors."""

from __future__ import annotations

import dataclasses

import pytest

from bench.scenarios import ROWS, START, Row
from bench.table import Result, render

RATE = next(row for row in ROWS if row.figure == "steps_per_s")
LATENCY = next(row for row in ROWS if row.figure == "p50_us")


def result(row: Row, *pairs: tuple[float, float]) -> Result:
    rounds = [({row.figure: ours}, {row.figure: reference}) for ours, reference in pairs]
    return Result(row=row, rounds=rounds)


def test_a_rate_is_better_the_higher_it_is_and_a_latency_the_lower() -> None:
    assert result(RATE, (300.0, 100.0)).ratio == 3.0
    assert result(LATENCY, (100.0, 300.0)).ratio == 3.0


def test_the_ratio_is_the_median_of_those_of_the_rounds() -> None:
    three = result(RATE, (100.0, 100.0), (900.0, 100.0), (40.0, 10.0))
    assert three.ratios == [1.0, 4.0, 9.0]
    assert three.ratio == 4.0


@pytest.mark.parametrize(("ours", "verdict"), [(99.0, "BELOW"), (100.0, "floor"), (200.0, "aim")])
def test_a_row_is_held_to_its_floor_and_its_aim(ours: float, verdict: str) -> None:
    row = dataclasses.replace(RATE, floor=10, aim=20)
    assert result(row, (ours, 10.0)).verdict == verdict


def test_the_table_names_what_is_below_its_floor() -> None:
    rendered = render([result(dataclasses.replace(RATE, floor=5), (10.0, 10.0))])
    assert "1.0x (1.0 to 1.0) **below its floor**" in rendered
    assert rendered.count("\n") == 2


def test_names_of_rows_are_their_own() -> None:
    names = [row.name for row in (*ROWS, START)]
    assert len(names) == len(set(names))
