from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest

from openenv_bridge import Bridge
from openenv_grpc.engine import SessionManager
from openenv_grpc.errors import UnavailableError
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
    async with serve(gate.definition()) as served:
        async with served.http.get(f"{served.url}/other/metadata") as response:
            assert response.status == 404
            assert await response.json() == {"detail": "unknown environment 'other'"}
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await served.ws("/other/ws")
        assert refused.value.status == 403


async def test_abrupt_and_clean_disconnects_leave_nothing(serve: Serve, gate: Gate) -> None:
    async with serve(gate.definition(max_sessions=256)) as served:
        for number in range(40):
            socket = await served.ws()
            await socket.send_str('{"type":"reset"}')
            if number % 2:
                await socket.receive(timeout=5)
                await socket.close()
            else:
                connection = socket.get_extra_info("socket")
                assert connection is not None
                socket._response.close()  # drops the TCP connection without a word
        await no_sessions(served.manager)
