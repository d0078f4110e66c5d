from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest

from tests.bridge.conftest import Serve, talk
from tests.bridge.test_deviations import PROFILES


async def test_mcp_answers_with_a_slash_too(serve: Serve) -> None:
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    async with (
        serve(PROFILES["tools-sim"]) as served,
        served.http.post(served.url + "/mcp/", json=request, allow_redirects=False) as response,
    ):
        assert response.status == 200
        assert "result" in await response.json()


async def test_get_says_which_method_is_allowed(serve: Serve) -> None:
    async with (
        serve(PROFILES["tools-sim"]) as served,
        served.http.get(served.url + "/mcp", headers={"Accept": "text/event-stream"}) as response,
    ):
        assert response.status == 405
        assert response.headers["Allow"] == "DELETE,POST"


async def test_a_session_closed_while_a_socket_is_attached_ends_with_the_socket(
    serve: Serve,
) -> None:
    async with serve(PROFILES["tools-sim"]) as served:
        session_id = (await served.rpc("openenv/session/create"))["result"]["session_id"]
        closing = {"session_id": session_id, "closed": False, "closing": True}
        async with served.ws(f"/ws?session_id={session_id}") as socket:
            await talk(socket, type="state")
            for _ in range(2):
                answer = await served.rpc("openenv/session/close", session_id=session_id)
                assert answer["result"] == closing
            called = await served.rpc("tools/call", name="bump", session_id=session_id)
            assert called["result"]["data"] == 1
            assert (await talk(socket, type="state"))["type"] == "state"
            await socket.send_str('{"type":"close"}')
            assert (await socket.receive(timeout=5)).type is aiohttp.WSMsgType.CLOSE
        answer = await served.rpc("tools/list", session_id=session_id)
        assert answer["error"]["message"] == f"Unknown session_id: {session_id}"


async def test_a_session_ended_by_an_operator_ends_the_socket_attached_to_it(
    serve: Serve,
) -> None:
    from openenv_grpc.errors import SessionClosedError

    async with serve(PROFILES["tools-sim"]) as served:
        session_id = (await served.rpc("openenv/session/create"))["result"]["session_id"]
        async with served.ws(f"/ws?session_id={session_id}") as socket:
            await talk(socket, type="state")
            served.manager.end_session(session_id, SessionClosedError("ended by an operator"))
            frame = await socket.receive_json(timeout=5)
            assert frame["data"]["code"] == "SESSION_ERROR"
            assert (await socket.receive(timeout=5)).type is aiohttp.WSMsgType.CLOSE


async def test_sessions_that_http_opened_end_with_the_bridge(serve: Serve) -> None:
    async with serve(PROFILES["tools-sim"]) as served:
        await served.rpc("openenv/session/create")
        await served.bridge.__aexit__(None, None, None)
        assert served.manager.sessions() == []


async def test_calls_in_one_session_from_several_requests_all_answer(serve: Serve) -> None:
    async with serve(PROFILES["tools-sim"]) as served:
        session_id = (await served.rpc("openenv/session/create"))["result"]["session_id"]
        answers = await asyncio.gather(
            *[served.rpc("tools/call", name="bump", session_id=session_id) for _ in range(5)]
        )
        assert sorted(answer["result"]["data"] for answer in answers) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("session_id", [["a"], {"a": 1}, 5])
async def test_a_session_id_that_is_no_text_is_unknown(serve: Serve, session_id: Any) -> None:
    async with serve(PROFILES["tools-sim"]) as served:
        answer = await served.rpc("tools/list", session_id=session_id)
        assert answer["error"]["code"] == -32602
