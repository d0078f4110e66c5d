"""The TypeScript examples, on stubs generated from the contract that the server hands out."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = [pytest.mark.languages, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def trainer(example, require, run, served) -> Path:
    require("npm", "Node.js 20 or newer")
    folder = example("typescript")
    run("npm", "ci", "--ignore-scripts", "--prefer-offline", cwd=folder)
    run("buf", "generate", f"http://{served.http}/proto.binpb", cwd=folder)
    run("npm", "run", "build", cwd=folder)
    return folder


def test_the_shortest_client_opens_resets_and_steps(trainer, run, served):
    first, second = run("node", "dist/short.js", served.grpc, cwd=trainer).splitlines()
    assert "Echo environment ready!" in first
    assert '"echoed_message":"hi"' in second
    assert second.endswith(" 0.2")


def test_the_tour_meets_an_error_and_sends_a_batch(trainer, run, served, check_tour):
    check_tour(
        run("node", "dist/tour.js", served.grpc, cwd=trainer),
        invalid_action="INVALID_ACTION",
        none="NONE",
        lives="false",
        refused="InvalidArgument INVALID_ACTION",
    )


def test_the_lockfile_names_no_registry(trainer):
    assert "://" not in (trainer / "package-lock.json").read_text(encoding="utf-8")
