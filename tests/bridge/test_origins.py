from __future__ import annotations

import aiohttp
import pytest

from openenv_bridge.origins import is_loopback
from tests.bridge.conftest import Serve, talk
from tests.bridge.gates import Gate

FOREIGN = ["http://evil.example", "https://evil.example:8000", "null", "http://[bad"]


@pytest.mark.parametrize("origin", FOREIGN)
@pytest.mark.parametrize("path", ["/reset", "/step", "/mcp", "/gate/tasks"])
async def test_a_foreign_page_may_not_post(
    serve: Serve, gate: Gate, origin: str, path: str
) -> None:
    async with (
        serve(gate.definition()) as served,
        served.http.post(served.url + path, json={}, headers={"Origin": origin}) as response,
    ):
        assert response.status == 403
    assert gate.built == 0


@pytest.mark.parametrize("path", ["/ws", "/mcp"])
async def test_a_foreign_page_may_not_open_a_socket(serve: Serve, gate: Gate, path: str) -> None:
    async with serve(gate.definition()) as served:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await served.ws(path, headers={"Origin": "http://evil.example"})
        assert refused.value.status == 403


@pytest.mark.parametrize(
    "origin", ["http://127.0.0.1:3000", "http://localhost", "http://[::1]:8000"]
)
async def test_a_page_of_this_machine_may(serve: Serve, gate: Gate, origin: str) -> None:
    async with (
        serve(gate.definition()) as served,
        served.ws(headers={"Origin": origin}) as socket,
    ):
        assert (await talk(socket, type="state"))["type"] == "state"


async def test_a_page_of_an_allowed_host_may(serve: Serve, gate: Gate) -> None:
    headers = {"Origin": "https://Lab.Example"}
    async with (
        serve(gate.definition(), allowed_hosts=["lab.example"]) as served,
        served.http.post(served.url + "/reset", headers=headers) as response,
    ):
        assert response.status == 200


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("app.localhost", True),
        ("0.0.0.0", False),
        ("10.0.0.1", False),
        ("localhost.example", False),
    ],
)
def test_loopback_is_known(name: str, expected: bool) -> None:
    assert is_loopback(name) is expected
