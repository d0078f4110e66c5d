from __future__ import annotations

import asyncio

import aiohttp
import pytest

from openenv_bridge.binary_ws import SUBPROTOCOL
from openenv_grpc.v1 import session_pb2
from tests.bridge.conftest import Serve, no_sessions, talk
from tests.bridge.gates import Gate


async def outcomes(
    socket: aiohttp.ClientWebSocketResponse, count: int
) -> list[session_pb2.Outcome]:
    """Reads messages until so many outcomes have come."""
    found: list[session_pb2.Outcome] = []
    async with asyncio.timeout(10):
        while len(found) < count:
            content = await socket.receive_bytes()
            found.extend(session_pb2.ConnectResponse.FromString(content).outcomes)
    return found


def step(text: str, *, number: int = 0) -> session_pb2.Operation:
    operation = session_pb2.Operation(session=number)
    operation.step.action.json = f'{{"text":"{text}"}}'
    return operation


async def test_the_stream_is_spoken_in_binary_frames(serve: Serve, gate: Gate) -> None:
    async with (
        serve(gate.definition()) as served,
        served.ws(protocols=(SUBPROTOCOL,)) as socket,
    ):
        assert socket.protocol == SUBPROTOCOL
        request = session_pb2.ConnectRequest(operations=[step("a"), step("b")])
        await socket.send_bytes(request.SerializeToString())
        found = await outcomes(socket, 2)
        assert [outcome.WhichOneof("kind") for outcome in found] == ["step", "step"]
        assert '"text":"b"' in found[1].step.observation.json


async def test_without_the_subprotocol_json_is_spoken(serve: Serve, gate: Gate) -> None:
    async with serve(gate.definition()) as served, served.ws(protocols=("other",)) as socket:
        assert socket.protocol is None
        assert (await talk(socket, type="state"))["type"] == "state"


async def test_a_client_that_leaves_during_a_step_leaves_no_session(
    serve: Serve, gate: Gate
) -> None:
    async with serve(gate.definition()) as served:
        socket = await served.ws(protocols=(SUBPROTOCOL,))
        operation = session_pb2.Operation()
        operation.step.action.json = '{"wait":true}'
        request = session_pb2.ConnectRequest(operations=[operation])
        await socket.send_bytes(request.SerializeToString())
        assert await asyncio.to_thread(gate.entered.wait, 5)
        await socket.close()
        gate.open.set()
        await no_sessions(served.manager)


@pytest.mark.parametrize("content", [b"\xff\xff\xff", b"\x0a\x7f\x08"], ids=["junk", "half"])
async def test_what_is_no_message_ends_the_socket_with_1002(
    serve: Serve, gate: Gate, content: bytes
) -> None:
    async with (
        serve(gate.definition()) as served,
        served.ws(protocols=(SUBPROTOCOL,)) as socket,
    ):
        await socket.send_bytes(content)
        while (await socket.receive(timeout=5)).type is aiohttp.WSMsgType.BINARY:
            pass
        assert socket.close_code == 1002


async def test_a_text_frame_ends_the_socket_with_1002(serve: Serve, gate: Gate) -> None:
    async with (
        serve(gate.definition()) as served,
        served.ws(protocols=(SUBPROTOCOL,)) as socket,
    ):
        await socket.send_str("{}")
        while (await socket.receive(timeout=5)).type is aiohttp.WSMsgType.BINARY:
            pass
        assert socket.close_code == 1002


async def test_a_frame_over_the_limit_ends_the_socket_with_1009(serve: Serve, gate: Gate) -> None:
    async with (
        serve(gate.definition(), max_message_bytes=1000) as served,
        served.ws(protocols=(SUBPROTOCOL,)) as socket,
    ):
        await socket.send_bytes(b"x" * 2000)
        while (await socket.receive(timeout=5)).type is aiohttp.WSMsgType.BINARY:
            pass
        assert socket.close_code == 1009


async def test_a_message_of_too_many_operations_closes_the_socket_with_1009(
    serve: Serve, gate: Gate
) -> None:
    async with (
        serve(gate.definition()) as served,
        served.ws(protocols=(SUBPROTOCOL,)) as socket,
    ):
        await socket.send_bytes(b"\x12\x00" * 100_001)
        await socket.receive(timeout=10)
        assert socket.close_code == 1009
