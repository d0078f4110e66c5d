"""The benchmark runs: one row of it, for an instant."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parent.parent.parent


@pytest.mark.reference
def test_a_row_is_measured_on_both_sides(reference_python: Path) -> None:
    run = subprocess.run(
        [
            sys.executable, "-m", "bench", "--rounds", "1", "--seconds", "0.2",
            "--rows", "1 session, p50, gRPC",
        ],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "| 1 session, p50, gRPC |" in run.stdout
    assert run.stdout.count("| ") > 10
