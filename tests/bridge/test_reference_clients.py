"""The reference's own clients, in a process of their own, against our bridge in this one."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.bridge.conftest import Serve, no_sessions
from tests.bridge.test_deviations import PROFILES
from tests.bridge.vector_server import reference_python

pytestmark = pytest.mark.reference

SCENARIOS = Path(__file__).with_name("reference_client_scenarios.py")

RESET = {
    "observation": {
        "metadata": {},
        "text": "ready",
        "turn": 0,
        "payload": {"seed": 7, "level": 2},
    },
    "reward": None,
    "done": False,
}
STEP = {
    "observation": {"metadata": {}, "text": "hi", "turn": 1, "payload": None},
    "reward": 0.5,
    "done": False,
}
STATE = {"episode_id": None, "step_count": 1, "level": 2, "last_text": "hi"}
LAST = {
    "observation": {"metadata": {}, "text": "f", "turn": 2, "payload": None},
    "reward": 1.0,
    "done": True,
}
FAILED = "Server error: probe failure: y (code: EXECUTION_ERROR)"
INVALID = "Server error: Invalid message (code: VALIDATION_ERROR)"
FULL = "Server at capacity: 1/1 sessions active. Cannot accept new connections."


async def run(serve: Serve, profile: str, scenario: str) -> dict[str, Any]:
    async with serve(PROFILES[profile]) as served:
        process = await asyncio.create_subprocess_exec(
            reference_python(),
            str(SCENARIOS),
            scenario,
            served.url,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(60):
            output, errors = await process.communicate()
        assert process.returncode == 0, errors.decode()
        told: dict[str, Any] = json.loads(output.splitlines()[-1])
        await no_sessions(served.manager)
        return told


async def test_the_generic_client_goes_through_an_episode(serve: Serve) -> None:
    assert await run(serve, "probe-sim", "generic") == {
        "reset": RESET,
        "step": STEP,
        "state": STATE,
        "errors": [FAILED, INVALID, INVALID],
        "last": LAST,
    }


async def test_the_blocking_client_goes_through_an_episode(serve: Serve) -> None:
    assert await run(serve, "probe-sim", "generic_sync") == {
        "reset": RESET,
        "step": STEP,
        "state": STATE,
        "error": FAILED,
        "last": LAST,
    }


async def test_a_client_is_told_that_the_server_is_full(serve: Serve) -> None:
    told = await run(serve, "probe-cap1", "capacity")
    assert told["refused"] == f"Server error: {FULL} (code: CAPACITY_REACHED)"
    assert told["after"]["observation"]["text"] == "ready"


async def test_a_client_that_gave_up_on_a_step_gets_its_own_answer_next(serve: Serve) -> None:
    told = await run(serve, "probe-sim", "timeouts")
    assert told["given_up"] is True
    assert told["next"]["observation"]["text"] == "next"


async def test_clients_side_by_side_get_their_own_answers(serve: Serve) -> None:
    assert await run(serve, "probe-sim", "many") == {"steps": [20, 20, 20, 20]}


async def test_the_tool_client_lists_and_calls(serve: Serve) -> None:
    names = ["add", "bump", "boom", "record", "nap", "sim_only"]
    assert await run(serve, "tools-sim", "tools") == {
        "listed": names,
        "added": 3,
        "bumped": 1,
        "failures": [
            "Tool 'nosuch' failed: Unknown tool: 'nosuch'",
            "Tool 'boom' failed: Error calling tool 'boom': boom: r",
        ],
        "by_step": 2,
        "all_by_step": names,
        "step_count": 0,
    }


async def test_a_tool_client_is_told_that_the_server_is_full(serve: Serve) -> None:
    told = await run(serve, "tools-cap1", "full")
    assert told["refused"] == f"Failed to create MCP session: {FULL}"


async def test_the_docker_provider_finds_the_server_ready(serve: Serve) -> None:
    assert await run(serve, "probe-sim", "ready") == {"ready": True}
