"""The command: what it is asked for, one row for an instant, and Ctrl-C."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from bench.__main__ import parse
from bench.groups import GROUPS

CHECKOUT = Path(__file__).parent.parent.parent
pytestmark = pytest.mark.timeout(300)  # the reference takes long to start on a busy machine


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *arguments, "--rounds", "1", "--seconds", "0.2"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


def started(folder: Path) -> list[str]:
    """Returns the processes of the run that was started with this folder in its variables."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            with suppress(OSError):
                if f"BENCH_TEST={folder}".encode() in (process / "environ").read_bytes():
                    found.append(process.name)
    return found


@pytest.mark.slow
@pytest.mark.reference
def test_a_row_is_measured_on_both_sides_and_written_to_files(
    reference_python: Path, tmp_path: Path
) -> None:
    done = run("bench", "--only", "1 session, p50, gRPC", "--folder", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "| 1 session, p50, gRPC |" in done.stdout
    assert "failed" not in done.stdout
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".html", ".json"]


@pytest.mark.slow
@pytest.mark.reference
def test_the_tuned_reference_is_measured(reference_python: Path, tmp_path: Path) -> None:
    done = run("bench", "--only", "^text of 1 KiB", "--folder", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "| text of 1 KiB |" in done.stdout
    assert "failed" not in done.stdout


@pytest.mark.slow
@pytest.mark.reference
def test_what_was_measured_before_ctrl_c_is_printed_and_nothing_is_left_running(
    reference_python: Path, tmp_path: Path
) -> None:
    only = "1 session, p50, gRPC|64 sessions, gRPC, inline"
    with subprocess.Popen(
        [
            sys.executable, "-m", "bench", "--only", only, "--rounds", "1",
            "--seconds", "0.2", "--folder", str(tmp_path),
        ],
        cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"BENCH_TEST": str(tmp_path)},
    ) as process:  # fmt: skip
        assert process.stderr is not None
        assert process.stdout is not None
        for line in process.stderr:
            if "round 1 of 1" in line:
                assert len(started(tmp_path)) > 1
                process.send_signal(signal.SIGINT)
                break
        printed = process.stdout.read()
        told = process.stderr.read()
    assert process.returncode == 130
    assert "interrupted" in told
    assert "| 1 session, p50, gRPC |" in printed
    assert "inline" not in printed
    assert len(list(tmp_path.iterdir())) == 2
    assert started(tmp_path) == []


@pytest.mark.reference
def test_quick_runs_what_is_promised_and_only_chooses_among_all(reference_python: Path) -> None:
    quick = parse(["--quick"])
    assert [group.title for group in quick.groups] == [
        group.title for group in GROUPS if group.quick
    ]
    assert [group.rounds for group in quick.groups] == [2, 1, 1]
    assert [group.seconds for group in quick.groups] == [0.4, 0.75, 0.25]
    chosen = parse(["--quick", "--only", "4 MiB"])
    assert [row.name for group in chosen.groups for row in group.rows] == ["text of 4 MiB"]
    everything = parse([])
    assert [group.rows for group in everything.groups] == [group.rows for group in GROUPS]


@pytest.mark.reference
def test_a_pattern_that_matches_no_row_is_refused(
    reference_python: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse(["--only", "chess"])
    assert "no row matches 'chess'" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["bench", "bench.compare"])
def test_the_page_on_benchmarks_has_every_option(command: str) -> None:
    told = subprocess.run(
        [sys.executable, "-m", command, "--help"],
        cwd=CHECKOUT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    page = (CHECKOUT / "docs" / "benchmarks.md").read_text()
    options = set(re.findall(r"--[a-z]+", told)) - {"--help"}
    assert options == {option for option in options if f"| `{option}" in page}


def test_the_page_on_benchmarks_has_every_group() -> None:
    page = (CHECKOUT / "docs" / "benchmarks.md").read_text()
    assert re.findall(r"^\| ([A-Z][^|]*) \|", page, re.MULTILINE) == [g.title for g in GROUPS]
