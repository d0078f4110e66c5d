"""Tests that run where the reference is installed, and with it older packages than here."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parent.parent.parent

pytestmark = pytest.mark.reference


@pytest.mark.parametrize(
    "file",
    [
        "tests/test_mcp_servers.py",
        "tests/test_mcp_environment.py",
        "tests/test_hearing.py",
        "tests/engine/test_tools.py",
        "tests/reference/served_unchanged.py",
        "tests/reference/same_behaviour.py",
    ],
)
def test_these_hold_where_the_reference_is_installed(reference_python: Path, file: str) -> None:
    ran = subprocess.run(
        [reference_python, "-m", "pytest", file, "-q", "--noconftest", "-p", "no:cacheprovider"],
        cwd=CHECKOUT,
        env={**os.environ, "PYTHONPATH": "src:bridge"},
        capture_output=True,
        text=True,
        timeout=100,
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
