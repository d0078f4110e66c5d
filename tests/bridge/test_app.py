from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path

import aiohttp
import pytest

from openenv_bridge import Bridge
from openenv_grpc import GenericEnvClient
from openenv_grpc.engine import SessionManager
from openenv_grpc.errors import EnvironmentNotFoundError, UnavailableError
from tests.bridge.conftest import Serve, no_sessions, talk
from tests.bridge.gates import Gate


async def test_a_port_in_use_is_a_typed_error(serve: Serve, gate: Gate) -> None:
    async with serve(gate.definition()) as served:
        port = served.bridge.port
        with pytest.raises(UnavailableError, match=f"127.0.0.1:{port} is in use"):
            async with Bridge(served.manager, port=port):
                pass


async def test_stopping_closes_sockets_with_1012_and_their_sessions(gate: Gate) -> None:
    async with SessionManager([gate.definition()]) as manager, aiohttp.ClientSession() as http:
        async with Bridge(manager) as bridge:
            socket = await http.ws_connect(f"http://127.0.0.1:{bridge.port}/ws")
            await talk(socket, type="state")
            closing = asyncio.create_task(socket.receive(timeout=5))
        message = await closing
        assert message.type is aiohttp.WSMsgType.CLOSE
        assert socket.close_code == 1012
        assert gate.closed.is_set()
        assert manager.sessions() == []


async def test_stopping_does_not_wait_for_a_peer_that_does_not_read(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openenv_bridge.sockets.CLOSE_TIMEOUT_S", 0.1)
    async with SessionManager([gate.definition()]) as manager, aiohttp.ClientSession() as http:
        async with asyncio.timeout(10), Bridge(manager) as bridge:
            socket = await http.ws_connect(f"http://127.0.0.1:{bridge.port}/ws")
            step = {"type": "step", "data": {"text": "x" * 8_000_000}}
            await socket.send_json(step)
            while [session.step_count for session in manager.sessions()] != [1]:
                await asyncio.sleep(0.01)
        assert manager.sessions() == []


async def test_a_unix_socket_is_listened_on(gate: Gate, tmp_path: Path) -> None:
    path = tmp_path / "bridge.sock"
    async with (
        SessionManager([gate.definition()]) as manager,
        Bridge(manager, address=None, unix_path=str(path)),
        aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(path))) as http,
        http.get("http://localhost/health") as response,
    ):
        assert response.status == 200


async def test_several_environments_are_told_apart_by_the_path(serve: Serve) -> None:
    first, second = Gate(), Gate()
    async with serve(first.definition(name="First"), second.definition(name="Second")) as served:
        for path in ("/ws", "/First/ws", "/first/ws"):
            async with served.ws(path) as socket:
                await talk(socket, type="state")
        assert (first.built, second.built) == (3, 0)
        async with served.http.post(f"{served.url}/second/reset") as response:
            assert response.status == 200
        assert second.built == 1
        async with served.http.get(f"{served.url}/list_environments") as response:
            assert await response.json() == ["First", "Second"]


async def test_an_unknown_environment_is_not_found(serve: Serve, gate: Gate) -> None:
    definitions = gate.definition(name="First"), Gate().definition(name="Ünder")
    async with serve(*definitions) as served:
        async with served.http.get(f"{served.url}/other/metadata") as response:
            assert response.status == 404
            assert await response.json() == {"detail": "unknown environment 'other'"}
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await served.ws("/other/ws")
        assert refused.value.status == 403
        client = GenericEnvClient(served.url + "/other")
        with pytest.raises(EnvironmentNotFoundError, match="it has: First, Ünder"):
            await client.connect()
        await client.close()


async def test_the_first_page_says_where_the_doors_are(serve: Serve, gate: Gate) -> None:
    definitions = gate.definition(name="First"), Gate().definition(name="Second")
    async with serve(*definitions, grpc_address="127.0.0.1:50051") as served:
        async with served.http.get(served.url + "/") as response:
            assert response.status == 200
            index = await response.json()
        assert index["grpc"] == "127.0.0.1:50051"
        assert list(index["environments"]) == ["First", "Second"]
        doors = index["environments"]["Second"]
        async with served.ws(doors["ws"]) as socket:
            assert (await talk(socket, type="state"))["type"] == "state"
        for page in (doors["http"] + "/metadata", index["documentation"], index["health"]):
            async with served.http.get(served.url + page) as response:
                assert response.status == 200


async def test_clean_and_abrupt_disconnects_leave_nothing(
    serve: Serve, gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve(gate.definition(max_sessions=256)) as served:
        for number in range(200):
            socket = await served.ws()
            await socket.send_str('{"type":"reset"}')
            if number % 2:
                await socket.receive(timeout=5)
                await socket.close()
            else:
                transport = socket.get_extra_info("socket")
                transport.shutdown(2)  # the TCP connection ends without a word
        await no_sessions(served.manager)
        async with asyncio.timeout(5):
            while gate_threads():
                await asyncio.sleep(0.01)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def gate_threads() -> list[str]:
    """Names the threads on which environments run."""
    return [thread.name for thread in threading.enumerate() if "gate" in thread.name]


@pytest.mark.parametrize(
    "content",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/9.9\r\n\r\n",
        b"garbage\r\n\r\n",
        b"POST /step HTTP/1.1\r\nContent-Length: 9\r\nContent-Type: application/json\r\n\r\n{",
        b"GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
    ],
    ids=["TLS", "version", "garbage", "half a body", "half a handshake", "no gzip"],
)
async def test_what_is_no_request_is_refused_and_logged_in_one_line_at_most(
    serve: Serve, gate: Gate, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    async with serve(gate.definition()) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.bridge.port)
        writer.write(content)
        writer.write_eof()
        async with asyncio.timeout(5):
            answer = await reader.read()
        writer.close()
        assert answer == b"" or b" 400 " in answer.splitlines()[0]
        async with served.http.get(served.url + "/health") as response:
            assert response.status == 200
    logged = [record for record in caplog.records if record.name.startswith("openenv_bridge")]
    assert len(logged) <= 1
    assert all(record.exc_info is None for record in logged)
    assert all(record.levelno <= logging.INFO for record in logged)
