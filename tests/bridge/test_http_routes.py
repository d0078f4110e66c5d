from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import ClientTimeout
from pydantic import field_validator

from openenv_grpc.engine import EngineSettings
from tests.bridge.conftest import Serve, Served
from tests.bridge.gates import Gate, GateAction
from tests.bridge.test_deviations import PROFILES


async def status_and_json(
    served: Served, method: str, path: str, **options: Any
) -> tuple[int, Any]:
    async with served.http.request(method, served.url + path, **options) as response:
        return response.status, await response.json()


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/reset"),
        ("HEAD", "/health"),
        ("OPTIONS", "/step"),
        ("GET", "/mcp"),
        ("DELETE", "/mcp"),
        ("POST", "/health"),
    ],
)
async def test_a_wrong_method_is_405_with_the_right_ones(
    serve: Serve, gate: Gate, method: str, path: str
) -> None:
    async with (
        serve(gate.definition()) as served,
        served.http.request(method, served.url + path) as response,
    ):
        assert response.status == 405
        assert response.headers["Allow"]
        if method != "HEAD":
            assert await response.json() == {"detail": "Method Not Allowed"}


@pytest.mark.parametrize("path", ["/nope", "/ws", "/ws/", "/health/x/y"])
async def test_an_unknown_path_is_404(serve: Serve, gate: Gate, path: str) -> None:
    async with serve(gate.definition()) as served:
        assert await status_and_json(served, "GET", path) == (404, {"detail": "Not Found"})


@pytest.mark.parametrize("path", ["/reset", "/step"])
@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded"])
async def test_a_body_of_another_type_is_taken_as_text_and_refused(
    serve: Serve, gate: Gate, path: str, content_type: str
) -> None:
    headers = {"Content-Type": content_type}
    async with serve(gate.definition()) as served:
        status, answer = await status_and_json(served, "POST", path, data=b"{}", headers=headers)
        assert status == 422
        assert answer["detail"][0]["loc"] == ["body"]
        assert answer["detail"][0]["input"] == "{}"


async def test_malformed_json_is_422(serve: Serve, gate: Gate) -> None:
    headers = {"Content-Type": "application/json"}
    async with serve(gate.definition()) as served:
        for body in (b"{bad", b"[" * 10_000):
            status, answer = await status_and_json(
                served, "POST", "/step", data=body, headers=headers
            )
            assert status == 422
            assert answer["detail"][0]["type"] == "json_invalid"


@pytest.mark.parametrize(
    ("path", "body", "place"),
    [
        ("/step", {}, ["body", "action"]),
        ("/step", {"action": []}, ["body", "action"]),
        ("/step", {"action": {}, "timeout_s": 0}, ["body", "timeout_s"]),
        ("/step", {"action": {}, "request_id": "x" * 256}, ["body", "request_id"]),
        ("/reset", [], ["body"]),
        ("/reset", {"episode_id": "x" * 256}, ["body", "episode_id"]),
    ],
)
async def test_a_wrong_body_is_422_and_says_where(
    serve: Serve, gate: Gate, path: str, body: Any, place: list[str]
) -> None:
    async with serve(gate.definition()) as served:
        status, answer = await status_and_json(served, "POST", path, json=body)
        assert status == 422
        assert answer["detail"][0]["loc"] == place
    assert gate.built == 0


async def test_a_body_that_is_not_compressed_as_it_says_is_400_without_a_traceback(
    serve: Serve, gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    async with serve(gate.definition()) as served:
        status, answer = await status_and_json(served, "POST", "/step", data=b"{}", headers=headers)
        assert (status, answer) == (400, {"detail": "Bad Request"})
    logged = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(logged) <= 1
    assert all(record.exc_info is None for record in logged)


@pytest.mark.parametrize("path", ["/step", "/reset"])
async def test_null_for_a_body_is_422(serve: Serve, gate: Gate, path: str) -> None:
    headers = {"Content-Type": "application/json"}
    async with serve(gate.definition()) as served:
        status, answer = await status_and_json(served, "POST", path, data=b"null", headers=headers)
        assert status == 422
        assert answer["detail"][0]["loc"] == ["body"]


async def test_a_missing_body_of_a_step_is_422(serve: Serve, gate: Gate) -> None:
    async with serve(gate.definition()) as served:
        status, answer = await status_and_json(served, "POST", "/step")
        assert status == 422
        assert answer["detail"] == [
            {"type": "missing", "loc": ["body"], "msg": "Field required", "input": None}
        ]


async def test_a_steps_limit_is_handed_to_the_environment(serve: Serve, gate: Gate) -> None:
    async with serve(gate.definition()) as served:
        status, answer = await status_and_json(
            served, "POST", "/step", json={"action": {"text": "a"}, "timeout_s": 3}
        )
        assert status == 200
        assert answer["observation"]["timeout_s"] == 3.0


async def test_an_exception_is_500_without_its_text_and_drops_the_connection(
    serve: Serve,
) -> None:
    action = {"text": "x", "op": "fail"}
    async with (
        serve(PROFILES["probe-sim"]) as served,
        served.http.post(served.url + "/step", json={"action": action}) as response,
    ):
        assert response.status == 500
        assert response.headers["Content-Type"] == "text/plain; charset=utf-8"
        assert await response.text() == "Internal Server Error"
        assert response.headers["Connection"] == "close"


@pytest.mark.parametrize("error", [KeyError("odd"), SystemExit(1), KeyboardInterrupt()])
async def test_whatever_a_validator_raises_is_500_and_the_server_goes_on(
    serve: Serve, gate: Gate, error: BaseException
) -> None:
    class Picky(GateAction):
        @field_validator("text")
        @classmethod
        def check(cls, text: str) -> str:
            if text == "odd":
                raise error
            return text

    definition = replace(gate.definition(), action_type=Picky)
    async with serve(definition) as served:
        async with served.http.post(
            served.url + "/step", json={"action": {"text": "odd"}}
        ) as response:
            assert response.status == 500
        status, _ = await status_and_json(served, "POST", "/step", json={"action": {}})
        assert (status, gate.built) == (200, 1)


async def test_health_builds_nothing(serve: Serve, gate: Gate) -> None:
    async with serve(gate.definition()) as served:
        assert await status_and_json(served, "GET", "/health") == (200, {"status": "healthy"})
    assert gate.built == 0


async def test_a_draining_server_is_unhealthy(serve: Serve, gate: Gate) -> None:
    async with serve(gate.definition()) as served:
        served.manager.drain()
        assert await status_and_json(served, "GET", "/health") == (503, {"status": "unhealthy"})


async def test_stateless_requests_take_no_slot(serve: Serve, gate: Gate) -> None:
    async with serve(gate.definition(max_sessions=1)) as served, served.ws() as socket:
        await socket.send_str('{"type":"step","data":{"wait":true}}')
        assert await asyncio.to_thread(gate.entered.wait, 5)
        status, _ = await status_and_json(served, "POST", "/reset")
        gate.open.set()
        assert status == 200


async def test_a_request_whose_client_has_left_holds_up_no_other(serve: Serve, gate: Gate) -> None:
    definition = gate.definition(max_sessions=1)
    definition.factory.SUPPORTS_CONCURRENT_SESSIONS = False  # type: ignore[attr-defined]
    settings = EngineSettings(close_timeout_s=0.05)
    async with serve(definition, settings=settings) as served:
        url, hangs = served.url + "/step", {"action": {"wait": True}}
        left = asyncio.create_task(served.http.post(url, json=hangs))
        assert await asyncio.to_thread(gate.entered.wait, 5)
        left.cancel()
        async with served.http.post(url, json={"action": {}}, timeout=ClientTimeout(5)) as response:
            assert response.status == 200
        gate.open.set()


async def test_a_body_larger_than_the_limit_is_413(serve: Serve, gate: Gate) -> None:
    async with serve(gate.definition(), max_message_bytes=1000) as served:
        status, _ = await status_and_json(served, "POST", "/reset", json={"x": "x" * 2000})
        assert status == 413
