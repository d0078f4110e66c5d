"""`/ws?resume_window_s=N`: JSON frames with numbers, over sockets that may be lost."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import aiohttp
import pytest

from openenv_grpc.engine import EngineSettings, EnvironmentDefinition
from tests.bridge.conftest import Serve, Served, no_sessions, talk
from tests.environments import Count, Countdown, Counted, Gates, Toolbox


class Tallied(Countdown):
    """Counts the steps of all its instances; a step may be held up."""

    taken: ClassVar[int] = 0
    gates: ClassVar[Gates]

    def step(self, action: Count, timeout_s: float | None = None) -> Counted:
        Tallied.taken += 1
        if action.text == "wait":
            self.gates.entered.set()
            self.gates.leave.wait(20)
        return super().step(action, timeout_s)


TALLIED = EnvironmentDefinition(factory=Tallied, action_type=Count, observation_type=Counted)
TOOLBOX = EnvironmentDefinition(factory=Toolbox, action_type=Count, observation_type=Counted)


@pytest.fixture(autouse=True)
def gates() -> Gates:
    Tallied.taken, Tallied.gates = 0, Gates()
    return Tallied.gates


async def begun(socket: aiohttp.ClientWebSocketResponse) -> str:
    """Returns what takes up a new session, as a query."""
    told = await socket.receive_json(timeout=10)
    assert told["type"] == "session"
    data = told["data"]
    assert data["resume_window_s"] == 30
    return f"?session_id={data['session_id']}&resume_key={data['resume_key']}"


async def lose(socket: aiohttp.ClientWebSocketResponse) -> None:
    """Cuts a socket off, without a closing frame."""
    transport = socket.get_extra_info("socket")
    assert transport is not None
    connection: Any = socket._response.connection
    connection.transport.abort()


async def detached(served: Served) -> None:
    async with asyncio.timeout(10):
        while [info.state.value for info in served.manager.sessions()] != ["detached"]:
            await asyncio.sleep(0.01)


async def test_a_session_goes_on_over_another_socket_and_no_frame_is_done_twice(
    serve: Serve,
) -> None:
    async with serve(TALLIED) as served:
        async with served.ws("/ws?resume_window_s=30") as socket:
            again = await begun(socket)
            await talk(socket, type="reset", data={"start": 9}, request_id=1)
            first = await talk(socket, type="step", data={"by": 2}, request_id=2)
            await lose(socket)
        await detached(served)
        async with served.ws("/ws" + again) as socket:
            told = await socket.receive_json(timeout=10)
            assert told["data"]["last_request_id"] == 2
            assert await talk(socket, type="step", data={"by": 2}, request_id=2) == first
            second = await talk(socket, type="step", data={"by": 3}, request_id=3)
    assert first["data"]["observation"]["left"] == 7
    assert (first["request_id"], second["request_id"]) == (2, 3)
    assert second["data"]["observation"]["left"] == 4
    assert Tallied.taken == 2


async def test_a_step_whose_socket_is_lost_is_answered_where_it_is_asked_for_again(
    serve: Serve, gates: Gates
) -> None:
    async with serve(TALLIED) as served:
        async with served.ws("/ws?resume_window_s=30") as socket:
            again = await begun(socket)
            await socket.send_json({"type": "step", "data": {"text": "wait"}, "request_id": 1})
            await asyncio.to_thread(gates.entered.wait, 10)
            await lose(socket)
        async with served.ws("/ws" + again) as socket:
            await socket.receive_json(timeout=10)
            await socket.send_json({"type": "step", "data": {"text": "wait"}, "request_id": 1})
            gates.leave.set()
            answer = await socket.receive_json(timeout=10)
    assert (answer["type"], answer["request_id"], Tallied.taken) == ("observation", 1, 1)


async def test_numbers_that_are_missing_wrong_or_used_for_something_else_are_refused(
    serve: Serve,
) -> None:
    async with serve(TALLIED) as served, served.ws("/ws?resume_window_s=30") as socket:
        await begun(socket)
        for wrong in ({}, {"request_id": "one"}, {"request_id": 0}):
            answer = await talk(socket, type="reset", **wrong)
            assert answer["data"]["code"] == "VALIDATION_ERROR"
            assert "the next is 1" in answer["data"]["message"]
        gap = await talk(socket, type="reset", request_id=2)
        assert "1 is next" in gap["data"]["message"]
        await talk(socket, type="reset", request_id=1)
        other = await talk(socket, type="state", request_id=1)
        assert "was used before, for another operation" in other["data"]["message"]
        assert (await talk(socket, type="state", request_id=2))["type"] == "state"


async def test_who_takes_a_session_up_has_it_alone(serve: Serve) -> None:
    async with serve(TALLIED) as served, served.ws("/ws?resume_window_s=30") as first:
        again = await begun(first)
        async with served.ws("/ws" + again) as second:
            await second.receive_json(timeout=10)
            told = await first.receive_json(timeout=10)
            assert told["data"]["code"] == "SESSION_ERROR"
            assert (await first.receive()).type is aiohttp.WSMsgType.CLOSE
            assert (await talk(second, type="state", request_id=1))["type"] == "state"


async def test_tools_that_are_called_have_numbers_too(serve: Serve) -> None:
    async with serve(TOOLBOX) as served, served.ws("/ws?resume_window_s=30") as socket:
        await begun(socket)
        call = {
            "jsonrpc": "2.0",
            "id": 7,
            "method": "tools/call",
            "params": {"name": "add", "arguments": {"a": 1, "b": 2}},
        }
        first = await talk(socket, type="mcp", data=call, request_id=1)
        assert await talk(socket, type="mcp", data=call, request_id=1) == first
        assert (await talk(socket, type="state", request_id=2))["type"] == "state"
    assert first["data"]["result"]["data"] == 3


async def test_a_session_that_is_closed_is_gone_and_its_answers_are_kept(serve: Serve) -> None:
    async with serve(TALLIED) as served:
        async with served.ws("/ws?resume_window_s=30") as socket:
            again = await begun(socket)
            state = await talk(socket, type="state", request_id=1)
            await socket.send_json({"type": "close", "request_id": 2})
            await socket.receive(timeout=10)
            assert socket.close_code == 1000
        await no_sessions(served.manager)
        async with served.ws("/ws" + again) as socket:
            await socket.receive_json(timeout=10)
            assert await talk(socket, type="state", request_id=1) == state
            gone = await talk(socket, type="state", request_id=3)
            assert gone["data"]["code"] == "SESSION_ERROR"


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("?resume_window_s=soon", "a number of seconds above 0"),
        ("?resume_window_s=-1", "a number of seconds above 0"),
        ("?session_id=none&resume_key=" + "k" * 32, "no session 'none'"),
    ],
)
async def test_a_handshake_that_makes_no_sense_is_told(serve: Serve, query: str, told: str) -> None:
    async with serve(TALLIED) as served, served.ws("/ws" + query) as socket:
        answer = await socket.receive_json(timeout=10)
        assert answer["data"]["code"] == "SESSION_ERROR"
        assert told in answer["data"]["message"]
        assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE


async def test_a_server_that_grants_no_window_says_so(serve: Serve) -> None:
    settings = EngineSettings(max_resume_window_s=0)
    async with serve(TALLIED, settings=settings) as served:
        async with served.ws("/ws?resume_window_s=30") as socket:
            told = await socket.receive_json(timeout=10)
            assert told["data"]["resume_window_s"] is None
            assert (await talk(socket, type="reset", request_id=1))["type"] == "observation"
        await no_sessions(served.manager)
