"""The report as JSON and as a page: complete, and in need of nothing else."""

from __future__ import annotations

import json
import re
from html import escape
from xml.etree import ElementTree

import pytest

from bench import page
from bench.groups import GROUPS
from bench.jobs import Measured
from bench.plot import Bar, Line, Scale, bar_chart, line_chart, position
from bench.report import Part, Report
from bench.rows import Group
from bench.spread import Result, Spread


def measured(place: int) -> Measured:
    figures = (
        "p50_us", "p99_ms", "steps_per_s", "mib_per_s", "server_us_per_step",
        "client_us_per_step", "kib_per_session", "opens_per_s", "start_s", "environment_percent",
    )  # fmt: skip
    return dict.fromkeys(figures, 100.0 + 10 * place)


def part(group: Group) -> Part:
    results = [
        Result(row=row, rounds=[tuple(measured(place) for place, _ in enumerate(row.sides))] * 2)
        for row in group.rows
    ]
    return Part(group=group, results=results)


@pytest.fixture
def report() -> Report:
    machine: dict[str, object] = {"commit": "abc<1", "cores": 2, "versions": {"grpcio": "1"}}
    return Report(machine=machine, load_before=(1, 1, 1), parts=[part(group) for group in GROUPS])


def test_the_page_has_a_chart_and_a_table_of_every_group(report: Report) -> None:
    written = page.render(report)
    sections = re.findall(r"<section>.*?</section>", written, re.DOTALL)
    assert len(sections) == len(GROUPS)
    for section, group in zip(sections, GROUPS, strict=True):
        assert group.title in section
        assert "<svg" in section
        assert all(escape(row.name) in section for row in group.rows)


def test_the_page_needs_nothing_else_and_escapes_what_it_shows(report: Report) -> None:
    written = page.render(report)
    assert not re.search(r"https?:|src=|href=|@import|url\(|<script", written)
    assert "abc&lt;1" in written
    assert "abc<1" not in written


def test_charts_are_well_formed(report: Report) -> None:
    charts = re.findall(r"<svg.*?</svg>", page.render(report), re.DOTALL)
    assert len(charts) == len(GROUPS)
    for chart in charts:
        ElementTree.fromstring(chart)


def test_a_line_has_a_point_for_each_figure_and_rises_with_it() -> None:
    points = [(1.0, Spread(10, 9, 11)), (100.0, Spread(1000, 900, 1100))]
    chart = ElementTree.fromstring(line_chart([Line("ours", points)], axis="x", figure="y"))
    path = chart.find(".//polyline")
    assert path is not None
    [(x1, y1), (x2, y2)] = [
        tuple(map(float, point.split(","))) for point in path.attrib["points"].split()
    ]
    assert x1 < x2
    assert y1 > y2


@pytest.mark.parametrize(("ratio", "below"), [(4.9, True), (5.1, False)])
def test_a_bar_below_its_floor_looks_so(ratio: float, below: bool) -> None:
    chart = bar_chart([Bar("row", Spread(ratio, ratio, ratio), [5, 8])], label="ratios")
    assert ('class="series below"' in chart) is below


def test_there_is_no_chart_of_nothing() -> None:
    assert bar_chart([], label="ratios") == ""
    assert line_chart([Line("ours", [])], axis="x", figure="y") == ""


def test_a_single_point_is_drawn() -> None:
    one = Line("ours", [(1.0, Spread(5, 5, 5))])
    ElementTree.fromstring(line_chart([one], axis="x", figure="y"))


def test_the_json_has_every_round_of_every_side(report: Report) -> None:
    content = json.loads(json.dumps(report.content()))
    rows = [row for group in content["groups"] for row in group["rows"]]
    assert [row["name"] for row in rows] == [row.name for group in GROUPS for row in group.rows]
    assert all(len(side["rounds"]) == 2 for row in rows for side in row["measured"])
    assert content["machine"]["versions"] == {"grpcio": "1"}
    assert rows[0]["measured"][0]["ratio"] == {"middle": 1.1, "least": 1.1, "most": 1.1}


def test_the_markdown_names_the_commit_and_the_load_of_the_machine(report: Report) -> None:
    assert "Commit abc<1, 2 cores, load average 1.0 before and 0.0 after." in report.markdown()


def test_rows_without_a_round_are_left_out(report: Report) -> None:
    report.parts = [Part(group=GROUPS[0], results=[Result(row=GROUPS[0].rows[0])]), report.parts[1]]
    report.drop_unmeasured()
    assert [part.group.title for part in report.parts] == [GROUPS[1].title]


def test_an_axis_has_more_marks_where_powers_of_ten_are_few() -> None:
    assert Scale(8, 2500, 0, 1).ticks() == [10, 100, 1000]
    assert Scale(32.5, 464, 0, 1).ticks() == [50, 100, 200]


def test_sizes_are_written_in_their_units() -> None:
    assert [position(size, "bytes") for size in (50, 2**10, 2**17, 2**22)] == [
        "50", "1 KiB", "128 KiB", "4 MiB",
    ]  # fmt: skip
    assert position(5000, "sessions") == "5,000"
