"""The benchmark runs: one row of it, for an instant."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parent.parent.parent


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *arguments, "--rounds", "1", "--seconds", "0.2"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


@pytest.mark.reference
def test_a_row_is_measured_on_both_sides(reference_python: Path) -> None:
    done = run("bench", "--only", "1 session, p50, gRPC")
    assert done.returncode == 0, done.stderr
    assert "| 1 session, p50, gRPC |" in done.stdout
    assert "failed" not in done.stdout
    assert done.stdout.count("| ") > 10
