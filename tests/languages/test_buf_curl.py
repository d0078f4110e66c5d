"""`buf curl`, which knows nothing of the project but what reflection tells it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.languages


def test_it_lists_the_services_and_steps(run, served):
    script = Path(__file__).parents[2] / "examples/shell/tour.sh"
    services, answers = _split(run(script, served.grpc))
    assert {
        "grpc.health.v1.Health",
        "openenv_grpc.v1.AdminService",
        "openenv_grpc.v1.CatalogService",
        "openenv_grpc.v1.EpisodeService",
        "openenv_grpc.v1.SessionService",
        "openenv_grpc.v1.TaskService",
        "openenv_grpc.v1.ToolService",
    } <= set(services)

    reset, step, close, *responses = answers
    assert "Echo environment ready!" in reset["observation"]["json"]
    assert json.loads(step["observation"]["json"])["echoed_message"] == "hi"
    assert close == {"stepCount": "1"}

    outcomes = [outcome for response in responses for outcome in response["outcomes"]]
    assert [outcome["requestId"] for outcome in outcomes] == ["1", "2", "3"]
    assert json.loads(outcomes[1]["step"]["observation"]["json"])["echoed_message"] == "hi"
    assert outcomes[2]["getState"]["stepCount"] == "1"


def _split(printed: str) -> tuple[list[str], list[dict]]:
    """Splits what was printed into the lines before the first JSON object and the objects."""
    listing, brace, rest = printed.partition("{")
    rest = brace + rest
    answers: list[dict] = []
    while rest.strip():
        answer, end = json.JSONDecoder().raw_decode(rest.lstrip())
        answers.append(answer)
        rest = rest.lstrip()[end:]
    return listing.split(), answers
