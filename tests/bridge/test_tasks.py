from __future__ import annotations

from typing import Any

import pytest

from tests.bridge.conftest import Serve
from tests.bridge.test_deviations import PROFILES
from tests.bridge.test_http_routes import status_and_json


@pytest.mark.parametrize(
    ("path", "body", "status", "answer"),
    [
        ("/tasky/tasks", {"split": "nope"}, 500, None),
        ("/tasky/task", {"split": "train", "index": 9}, 400, {"detail": "Invalid task index"}),
        ("/tasky/task", {"split": "train", "index": -1}, 200, {"task": {"id": "train-2"}}),
        ("/tasky/task_range", {"split": "a", "stop": 1}, 200, {"tasks": [{"id": "a-0"}]}),
        ("/other/tasks", {"split": "a"}, 404, {"detail": "unknown environment 'other'"}),
    ],
)
async def test_a_task_route_answers(
    serve: Serve, path: str, body: Any, status: int, answer: Any
) -> None:
    async with (
        serve(PROFILES["tasks-sim"]) as served,
        served.http.post(served.url + path, json=body) as response,
    ):
        assert response.status == status
        if answer is not None:
            assert await response.json() == answer


@pytest.mark.parametrize(
    ("path", "body", "place"),
    [
        ("/tasky/tasks", {}, ["body", "split"]),
        ("/tasky/tasks", {"split": "a", "more": 1}, ["body", "more"]),
        ("/tasky/task", {"split": "a", "index": "x"}, ["body", "index"]),
    ],
)
async def test_a_wrong_body_is_422(serve: Serve, path: str, body: Any, place: list[str]) -> None:
    async with serve(PROFILES["tasks-sim"]) as served:
        status, answer = await status_and_json(served, "POST", path, json=body)
        assert status == 422
        assert answer["detail"][0]["loc"] == place


@pytest.mark.parametrize(
    ("path", "method"),
    [("tasks", "list_tasks"), ("num_tasks", "num_tasks")],
)
async def test_an_environment_without_tasks_is_501(serve: Serve, path: str, method: str) -> None:
    async with serve(PROFILES["probe-sim"]) as served:
        assert await status_and_json(served, "POST", f"/probe/{path}", json={"split": "train"}) == (
            501,
            {"detail": f"{method} is not supported for this environment"},
        )
