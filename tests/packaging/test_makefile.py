"""What `make` says while it sets up."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.served_process import CHECKOUT

SLOW = re.compile(r"^\S*(pip |python\S* -m (pip|venv) |go |npm |mvn |cargo )")


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.parametrize(
    "target", ["run", "install", "docs", "STAMPS/reference", "STAMPS/language-python_betterproto"]
)
def test_each_step_of_the_set_up_says_first_what_it_is_about_to_do(
    target: str, tmp_path: Path
) -> None:
    stamps = f"{tmp_path}/stamps"
    shown = subprocess.run(
        [
            *("make", "--dry-run", "--no-print-directory", f"STAMPS={stamps}", f"VENV={tmp_path}"),
            target.replace("STAMPS", stamps),
        ],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    said = False
    steps = 0
    for line in shown.splitlines():
        if line.startswith('echo "make: '):
            assert line.endswith(">&2")  # standard output is the server's
            said = True
        elif line.startswith("mkdir "):
            said = False
        elif SLOW.search(line):
            assert said, line
            steps += 1
    assert steps
