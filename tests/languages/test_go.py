"""The Go examples, on stubs generated from the contract that the server hands out."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = [pytest.mark.languages, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def trainer(example, require, run, served) -> Path:
    require("go", "go.dev/dl")
    folder = example("go")
    run("buf", "generate", f"http://{served.http}/proto.binpb", cwd=folder)
    run("go", "build", "-o", "bin/", "./unary", "./stream", "./tour", cwd=folder)
    return folder


def test_the_shortest_client_opens_resets_and_steps(trainer, run, served):
    first, second = run(trainer / "bin/unary", served.grpc).splitlines()
    assert "Echo environment ready!" in first
    assert '"echoed_message":"hi"' in second
    assert second.endswith(" 0.2")


def test_the_shortest_client_on_the_stream_opens_resets_and_steps(trainer, run, served):
    first, second, third = run(trainer / "bin/stream", served.grpc).splitlines()
    assert "Echo environment ready!" in first
    assert '"echoed_message":"one"' in second
    assert '"echoed_message":"two"' in third


def test_the_tour_meets_an_error_and_sends_a_batch(trainer, run, served, check_tour):
    check_tour(
        run(trainer / "bin/tour", served.grpc),
        invalid_action="REASON_INVALID_ACTION",
        none="EFFECT_NONE",
        lives="false",
        refused="InvalidArgument REASON_INVALID_ACTION",
    )


@pytest.mark.parametrize(("program", "limit"), [("unary", 10), ("stream", 20)])
def test_the_short_clients_are_short(trainer, program, limit):
    source = (trainer / program / "main.go").read_text(encoding="utf-8")
    body = source.split("func main() {\n")[1].split("\n}\n")[0]
    assert len(body.splitlines()) <= limit
    assert source.count("example.com/trainer/") == 1  # the stubs; no package of helpers


def test_the_examples_are_formatted_and_vetted(trainer, run):
    assert run("gofmt", "-l", "unary", "stream", "tour", cwd=trainer) == ""
    run("go", "vet", "./unary", "./stream", "./tour", cwd=trainer)


def test_the_served_contract_gives_the_stubs_that_the_protos_give(trainer, example, run):
    from_protos = example("go")
    run("buf", "generate", Path(__file__).parents[2] / "proto", cwd=from_protos)
    served_stubs = _files(trainer / "openenv")
    assert len(served_stubs) > 10
    assert served_stubs == _files(from_protos / "openenv")


def _files(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}
