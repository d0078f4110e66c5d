"""Two revisions are compared: what is asked for, and one row of it for an instant."""

from __future__ import annotations

import subprocess

import pytest

from bench.compare import parse
from bench.processes import CHECKOUT
from tests.bench.test_bench import run

if subprocess.run(["git", "rev-parse"], cwd=CHECKOUT, capture_output=True, check=False).returncode:
    pytest.skip("revisions are compared in a clone", allow_module_level=True)


def test_what_is_no_revision_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["no-such-revision"])
    assert "'no-such-revision' is no revision of this repository" in capsys.readouterr().err


@pytest.mark.parametrize("revision", ["--only=x", "HEAD:bench"])
def test_what_looks_like_an_option_or_a_folder_is_no_revision(revision: str) -> None:
    with pytest.raises(SystemExit):
        parse([revision])


def test_rows_are_chosen_by_a_pattern(capsys: pytest.CaptureFixture[str]) -> None:
    given = parse(["HEAD", "--only", "1 SESSION, .* gRPC"])
    assert [row.name for row in given.rows] == ["1 session, p50, gRPC"]
    with pytest.raises(SystemExit):
        parse(["HEAD", "--only", "chess"])
    assert "no row matches 'chess'; there are" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        parse(["HEAD", "--only", "("])


def test_the_head_is_the_working_tree_unless_one_is_named() -> None:
    assert parse(["HEAD"]).head_name == "working tree"
    assert parse(["HEAD", "--head", "HEAD"]).head_name == parse(["HEAD"]).base_name


@pytest.mark.timeout(300)
def test_a_revision_is_measured_beside_the_working_tree() -> None:
    done = run("bench.compare", "HEAD", "--only", "1 session, p50, gRPC")
    assert done.returncode == 0, done.stderr
    assert "| 1 session, p50, gRPC |" in done.stdout
    assert "failed" not in done.stdout
    assert " us: " in done.stdout
