"""The Python examples on betterproto's stubs, of both lines that there are."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.languages, pytest.mark.timeout(300)]

ROOT = Path(__file__).resolve().parents[2]
BETTERPROTO = ROOT / ".venv-betterproto/bin"


@pytest.mark.parametrize(
    ("name", "binaries"),
    [("python_betterproto2", Path(sys.executable).parent), ("python_betterproto", BETTERPROTO)],
    ids=["betterproto2", "betterproto_2_0_0b7"],
)
def test_the_tour_meets_an_error_and_sends_a_batch(
    example, require, run, served, check_tour, name, binaries
):
    plugin = binaries / f"protoc-gen-{name}"
    require(str(plugin), f"run `make .stamps/language-{name}`")
    folder = example(name)
    template = (folder / "buf.gen.yaml").read_text(encoding="utf-8")
    (folder / "buf.gen.yaml").write_text(
        template.replace(f"local: {plugin.name}\n", f"local: {plugin}\n"), encoding="utf-8"
    )
    run("buf", "generate", f"http://{served.http}/proto.binpb", cwd=folder)
    check_tour(
        run(binaries / "python", "tour.py", served.grpc, cwd=folder),
        invalid_action="INVALID_ACTION",
        none="NONE",
        lives="False",
        refused="INVALID_ARGUMENT",
    )
