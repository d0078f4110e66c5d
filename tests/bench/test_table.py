"""The benchmark's arithmetic and its tables: ratios round by round, medians, floors."""

from __future__ import annotations

import dataclasses

import pytest

from bench.compare import render as render_comparison
from bench.compare import rows_of_ours
from bench.groups import all_rows
from bench.jobs import Measured
from bench.rows import Growth, Row
from bench.scenarios import PROMISES
from bench.spread import Result, Spread, check_growth, check_limits, middle_half
from bench.table import limits, promised, side_by_side

RATE = next(row for row in PROMISES if row.figure == "steps_per_s")
LATENCY = next(row for row in PROMISES if row.figure == "p50_us")


def result(row: Row, *pairs: tuple[float, float]) -> Result:
    rounds: list[tuple[Measured, ...]] = [
        ({row.figure: ours}, {row.figure: theirs}) for ours, theirs in pairs
    ]
    return Result(row=row, rounds=rounds)


def test_a_rate_is_better_the_higher_it_is_and_a_latency_the_lower() -> None:
    assert result(RATE, (300.0, 100.0)).ratio(0) == Spread(3.0, 3.0, 3.0)
    assert result(LATENCY, (100.0, 300.0)).ratio(0) == Spread(3.0, 3.0, 3.0)


def test_the_ratio_is_the_median_of_those_of_the_rounds() -> None:
    three = result(RATE, (100.0, 100.0), (900.0, 100.0), (40.0, 10.0))
    assert three.ratio(0) == Spread(4.0, 1.0, 9.0)


def test_the_middle_half_of_many_rounds_leaves_their_ends_out() -> None:
    assert middle_half([1, 2, 3, 4, 100]) == Spread(3, 2, 4)
    assert middle_half([2.0]) == Spread(2, 2, 2)
    assert middle_half([]) is None


def test_there_is_no_ratio_of_what_was_not_measured_or_is_nothing() -> None:
    assert result(RATE).ratio(0) is None
    assert result(RATE, (0.0, 10.0)).ratio(0) is None
    assert result(RATE, (10.0, 10.0)).ratio(0, "p50_us") is None


@pytest.mark.parametrize(("ours", "expected"), [(99.0, "BELOW"), (100.0, "floor"), (200.0, "aim")])
def test_a_row_is_held_to_its_floor_and_its_aim(ours: float, expected: str) -> None:
    row = dataclasses.replace(RATE, floor=10, aim=20)
    assert result(row, (ours, 10.0)).verdict() == expected


def test_the_table_names_what_is_below_its_floor() -> None:
    [cells] = promised([result(dataclasses.replace(RATE, floor=5), (10.0, 10.0))])
    assert cells[3] == "1.00x (1.00 to 1.00) **below its floor**"


def test_a_side_that_failed_is_in_the_table_as_failed() -> None:
    lost = Result(row=RATE, rounds=[({}, {"steps_per_s": 10.0})], failed={0: "it ended"})
    [cells] = promised([lost])
    assert cells[1:4] == ["failed", "10 steps/s", ""]
    [cells] = side_by_side([lost])
    assert cells[1:] == ["failed", "10 steps/s"]


def test_sides_are_compared_with_the_last_of_their_row() -> None:
    ours, theirs = RATE.sides
    row = dataclasses.replace(RATE, sides=(ours, dataclasses.replace(ours, label="unix"), theirs))
    rounds: list[tuple[Measured, ...]] = [
        ({"steps_per_s": 400.0}, {"steps_per_s": 200.0}, {"steps_per_s": 100.0})
    ]
    [cells] = side_by_side([Result(row=row, rounds=rounds)])
    assert cells[1:] == [
        "400 steps/s; 4.00x (4.00 to 4.00)",
        "200 steps/s; 2.00x (2.00 to 2.00)",
        "100 steps/s",
    ]


def test_an_absolute_figure_is_held_to_its_limit_by_its_median() -> None:
    row = next(row for row in all_rows() if row.limits)
    name, most = row.limits[0].figure, row.limits[0].most
    rounds: list[tuple[Measured, ...]] = [({name: most * part},) for part in (0.5, 0.9, 3.0)]
    [check] = check_limits(Result(row=row, rounds=rounds))
    assert check.held
    [check] = check_limits(Result(row=row, rounds=[({name: most * 1.1},)]))
    assert not check.held
    assert limits([check])[0][3] == "**not held**"


def test_growth_is_that_of_a_figure_between_two_points() -> None:
    row = dataclasses.replace(RATE, sides=RATE.sides[:1])
    points = [
        Result(row=dataclasses.replace(row, at=at), rounds=[({"steps_per_s": figure},)])
        for at, figure in ((1, 900.0), (64, 100.0), (1000, 140.0))
    ]
    [check] = check_growth(points, Growth(start=64, end=1000, most=1.5))
    assert check.measured.middle == 1.4
    assert check.held
    assert check_growth(points[:2], Growth(start=64, end=1000, most=1.5)) == []


def test_names_of_rows_are_their_own() -> None:
    names = [row.name for row in all_rows()]
    assert len(names) == len(set(names))


def test_a_comparison_has_each_of_our_sides_once() -> None:
    assert len(rows_of_ours([RATE, RATE])) == 1
    rows = rows_of_ours(all_rows())
    assert len({row.name for row in rows}) == len(rows)
    assert all(side.server.kind == "ours" for row in rows for side in row.sides)
    assert [row.name for row in rows_of_ours(PROMISES) if "5 ms" in row.name] == [
        "4 sessions, 5 ms of Python, processes against threads (processes)",
        "4 sessions, 5 ms of Python, processes against threads (threads)",
    ]


def test_a_comparison_shows_both_revisions_and_what_a_step_costs_each_end() -> None:
    head = {"steps_per_s": 200.0, "server_us_per_step": 50.0, "client_us_per_step": 20.0}
    base = {"steps_per_s": 100.0, "server_us_per_step": 75.0, "client_us_per_step": 10.0}
    [row] = rows_of_ours([RATE])
    rendered = render_comparison([Result(row=row, rounds=[(head, base)])], "abc", "def")
    assert rendered.startswith("| scenario | abc | def | better by |")
    assert (
        "| 100 steps/s | 200 steps/s | 2.00x (2.00 to 2.00) "
        "| 75 us to 50 us: 1.50x (1.50 to 1.50) | 10 us to 20 us: 0.50x (0.50 to 0.50) |"
    ) in rendered
