from __future__ import annotations

import asyncio
import json
import logging

import aiohttp
import pytest

from openenv_bridge.conversation import MAX_WAITING
from openenv_grpc.engine import EngineSettings
from openenv_grpc.errors import SessionExpiredError
from tests.bridge.conftest import Serve, no_sessions, talk
from tests.bridge.gates import Gate


async def test_answers_come_in_the_order_of_the_requests(serve: Serve, gate: Gate) -> None:
    async with serve(gate.definition()) as served, served.ws() as socket:
        await socket.send_str('{"type":"step","data":{"wait":true},"request_id":1}')
        await socket.send_str('{"type":"bogus","request_id":2}')
        await socket.send_str("no json")
        await socket.send_str('{"type":"step","data":{"text":"b"},"request_id":4}')
        assert await asyncio.to_thread(gate.entered.wait, 5)
        gate.open.set()
        answers = [await socket.receive_json(timeout=5) for _ in range(4)]
        assert [answer["type"] for answer in answers] == [
            "observation",
            "error",
            "error",
            "observation",
        ]
        assert [answer.get("request_id") for answer in answers] == [1, 2, None, 4]


async def test_more_messages_than_are_held_are_all_answered(serve: Serve, gate: Gate) -> None:
    async with serve(gate.definition()) as served, served.ws() as socket:
        for number in range(200):
            await socket.send_str(json.dumps({"type": "state", "request_id": number}))
        answers = [await socket.receive_json(timeout=5) for _ in range(200)]
        assert [answer["request_id"] for answer in answers] == list(range(200))


async def test_close_comes_after_what_was_asked_before_it(serve: Serve, gate: Gate) -> None:
    async with serve(gate.definition()) as served, served.ws() as socket:
        await socket.send_str('{"type":"step","data":{"wait":true}}')
        await socket.send_str('{"type":"close"}')
        assert await asyncio.to_thread(gate.entered.wait, 5)
        gate.open.set()
        assert (await socket.receive_json(timeout=5))["type"] == "observation"
        assert (await socket.receive(timeout=5)).type is aiohttp.WSMsgType.CLOSE
        assert gate.closed.is_set()
        assert served.manager.sessions() == []


async def test_a_step_past_its_limit_is_an_error_and_the_next_answer_is_the_next_steps(
    serve: Serve, gate: Gate
) -> None:
    async with serve(gate.definition()) as served, served.ws() as socket:
        late = await talk(
            socket, type="step", data={"wait": True, "text": "late"}, timeout_s=0.05, request_id=1
        )
        assert late["type"] == "error"
        assert late["request_id"] == 1
        assert late["data"]["code"] == "EXECUTION_ERROR"
        gate.open.set()
        answer = await talk(socket, type="step", data={"text": "next"}, request_id=2)
        assert answer["request_id"] == 2
        assert answer["data"]["observation"]["text"] == "next"


async def test_an_episode_cut_short_says_so(serve: Serve, gate: Gate) -> None:
    async with serve(gate.definition()) as served, served.ws() as socket:
        answer = await talk(socket, type="step", data={"limit": 1})
        assert answer["data"]["done"] is True
        assert answer["data"]["truncated"] is True


async def test_a_client_that_leaves_during_a_step_leaves_no_session(
    serve: Serve, gate: Gate
) -> None:
    async with serve(gate.definition()) as served:
        socket = await served.ws()
        await socket.send_str('{"type":"step","data":{"wait":true}}')
        assert await asyncio.to_thread(gate.entered.wait, 5)
        await socket.close()
        gate.open.set()
        assert await asyncio.to_thread(gate.closed.wait, 5)
        await no_sessions(served.manager)


async def test_a_session_that_is_ended_elsewhere_tells_its_socket(serve: Serve, gate: Gate) -> None:
    async with serve(gate.definition()) as served, served.ws() as socket:
        await talk(socket, type="state")
        session_id = served.manager.sessions()[0].session_id
        served.manager.end_session(session_id, SessionExpiredError("it idled for too long"))
        frame = await socket.receive_json(timeout=5)
        assert frame["data"] == {"message": "it idled for too long", "code": "SESSION_ERROR"}
        assert (await socket.receive(timeout=5)).type is aiohttp.WSMsgType.CLOSE


async def test_a_draining_server_opens_no_sessions_and_starts_no_episodes(
    serve: Serve, gate: Gate
) -> None:
    async with serve(gate.definition()) as served, served.ws() as socket:
        await talk(socket, type="reset")
        served.manager.drain()
        assert (await talk(socket, type="step", data={}))["type"] == "observation"
        assert (await talk(socket, type="reset"))["data"]["code"] == "EXECUTION_ERROR"
        async with served.ws() as refused:
            frame = await refused.receive_json(timeout=5)
            assert frame["data"]["code"] == "SESSION_ERROR"
            assert (await refused.receive(timeout=5)).type is aiohttp.WSMsgType.CLOSE


async def test_errors_can_be_redacted(serve: Serve) -> None:
    from tests.bridge.test_deviations import PROFILES

    settings = EngineSettings(redact_errors=True)
    async with serve(PROFILES["probe-sim"], settings=settings) as served, served.ws() as socket:
        answer = await talk(socket, type="step", data={"text": "secret", "op": "fail"})
        assert answer["data"]["code"] == "EXECUTION_ERROR"
        assert "secret" not in answer["data"]["message"]


@pytest.mark.parametrize(
    "text",
    [
        "[" * 10_000 + "]" * 10_000,
        '{"type":"step","data":' + '{"a":' * 10_000 + "1" + "}" * 10_001,
        '{"type":"step","data":{"text":"' + "x" * 10_000_000 + '","more":1}}',
        '{"type":"step","data":{"limit":NaN}}',
        '{"type":"step","data":{"limit":"NaN"}}',
        '{"type":"step","da',
        "\u0000",
    ],
    ids=["deep array", "deep object", "10 MB", "NaN", "NaN as text", "half", "null character"],
)
async def test_hostile_text_is_answered_with_an_error_and_the_session_lives(
    serve: Serve, gate: Gate, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    caplog.set_level(logging.WARNING)
    async with (
        serve(gate.definition()) as served,
        served.ws(max_msg_size=2**26) as socket,
    ):
        await socket.send_str(text)
        assert (await socket.receive_json(timeout=10))["type"] == "error"
        assert (await talk(socket, type="state"))["type"] == "state"
    assert len(caplog.records) <= 1


async def test_text_that_is_not_utf_8_ends_the_socket_and_the_session(
    serve: Serve, gate: Gate
) -> None:
    async with serve(gate.definition()) as served, served.ws() as socket:
        await talk(socket, type="state")
        await socket.send_frame(b"\xff\xfe", aiohttp.WSMsgType.TEXT)
        assert (await socket.receive(timeout=5)).type is aiohttp.WSMsgType.CLOSE
        assert socket.close_code == 1007
        assert await asyncio.to_thread(gate.closed.wait, 5)


async def test_a_silent_peer_is_given_up(serve: Serve, gate: Gate) -> None:
    async with serve(gate.definition(), ping_interval_s=0.05) as served:
        async with served.ws(autoping=False) as socket:
            while (message := await socket.receive(timeout=5)).type is aiohttp.WSMsgType.PING:
                pass
            assert message.type is aiohttp.WSMsgType.CLOSE
            assert socket.close_code == 1011
        assert await asyncio.to_thread(gate.closed.wait, 5)


async def test_the_answer_to_a_ping_may_take_as_long_as_was_set(serve: Serve, gate: Gate) -> None:
    async with (
        serve(gate.definition(), ping_interval_s=0.02, ping_timeout_s=60.0) as served,
        served.ws(autoping=False) as socket,
    ):
        assert (await socket.receive(timeout=5)).type is aiohttp.WSMsgType.PING
        await socket.send_str('{"type":"state"}')
        assert (await socket.receive(timeout=5)).type is aiohttp.WSMsgType.TEXT
        with pytest.raises(TimeoutError):  # neither another ping nor the end
            await socket.receive(timeout=0.3)


async def test_nobody_is_pinged_with_an_interval_of_0(serve: Serve, gate: Gate) -> None:
    async with (
        serve(gate.definition(), ping_interval_s=0) as served,
        served.ws(autoping=False) as socket,
    ):
        with pytest.raises(TimeoutError):
            await socket.receive(timeout=0.3)


async def test_a_peer_that_sends_but_never_reads_is_given_up(
    serve: Serve, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openenv_bridge.sockets.CLOSE_TIMEOUT_S", 0.1)
    async with (
        asyncio.timeout(10),
        serve(gate.definition(), ping_interval_s=0.05) as served,
        served.ws() as socket,
    ):
        await socket.send_json({"type": "step", "data": {"text": "x" * 8_000_000}})
        for _ in range(MAX_WAITING + 1):  # so that the server reads no further, nor for pongs
            await socket.send_json({"type": "state"})
        assert await asyncio.to_thread(gate.closed.wait, 5)


async def test_a_peer_that_answers_pings_is_kept(serve: Serve, gate: Gate) -> None:
    async with (
        serve(gate.definition(), ping_interval_s=0.02) as served,
        served.ws(autoping=False) as socket,
    ):
        for _ in range(5):
            message = await socket.receive(timeout=5)
            assert message.type is aiohttp.WSMsgType.PING
            await socket.pong(message.data)
        await socket.send_str('{"type":"state"}')
        while (message := await socket.receive(timeout=5)).type is aiohttp.WSMsgType.PING:
            await socket.pong(message.data)
        assert message.type is aiohttp.WSMsgType.TEXT


async def test_a_peer_that_pings_is_answered(serve: Serve, gate: Gate) -> None:
    async with serve(gate.definition()) as served, served.ws(autoping=False) as socket:
        await socket.ping(b"there?")
        message = await socket.receive(timeout=5)
        assert message.type is aiohttp.WSMsgType.PONG
        assert message.data == b"there?"


@pytest.mark.parametrize("path", ["/ws", "/mcp"])
async def test_a_frame_over_the_limit_ends_the_socket_with_1009(
    serve: Serve, gate: Gate, path: str
) -> None:
    gate.open.set()
    async with (
        serve(gate.definition(), max_json_bytes=2000) as served,
        served.ws(path) as socket,
    ):
        await socket.send_str(" " * 2001)
        async with asyncio.timeout(10):
            while (await socket.receive()).type is aiohttp.WSMsgType.TEXT:
                pass
        assert socket.close_code == 1009
