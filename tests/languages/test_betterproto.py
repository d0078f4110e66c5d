"""The Python examples on betterproto's stubs, of both lines that there are."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.languages, pytest.mark.timeout(300)]

ROOT = Path(__file__).resolve().parents[2]
BETTERPROTO = ROOT / ".venv-betterproto/bin"


@pytest.mark.parametrize(
    ("name", "programs"),
    [("python_betterproto2", Path(sys.executable).parent), ("python_betterproto", BETTERPROTO)],
    ids=["betterproto2", "betterproto_2_0_0b7"],
)
def test_the_tour_meets_an_error_and_sends_a_batch(
    example, require, run, served, check_tour, name, programs
):
    require(str(programs / f"protoc-gen-{name}"), f"run `make .stamps/language-{name}`")
    folder = example(name)
    run("buf", "generate", f"http://{served.http}/proto.binpb", cwd=folder, programs=programs)
    check_tour(
        run(programs / "python", "tour.py", served.grpc, cwd=folder),
        invalid_action="INVALID_ACTION",
        none="NONE",
        lives="False",
        refused="INVALID_ARGUMENT",
    )
