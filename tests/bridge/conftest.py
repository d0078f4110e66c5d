from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from openenv_bridge import Bridge
from openenv_grpc.engine import EngineSettings, EnvironmentDefinition, SessionManager
from tests.bridge.gates import Gate


@dataclass(frozen=True)
class Served:
    """A bridge that listens, and a client of it."""

    manager: SessionManager
    bridge: Bridge
    http: aiohttp.ClientSession
    url: str

    def ws(self, path: str = "/ws", **options: Any) -> Any:
        """Opens a WebSocket."""
        return self.http.ws_connect(self.url + path, **options)

    async def rpc(self, method: str, **params: Any) -> dict[str, Any]:
        """Calls a JSON-RPC method over HTTP and returns the response."""
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        async with self.http.post(self.url + "/mcp", json=request) as response:
            assert response.status == 200
            answer: dict[str, Any] = await response.json()
            return answer


Serve = Callable[..., AbstractAsyncContextManager[Served]]


@pytest.fixture
def serve() -> Serve:
    @asynccontextmanager
    async def serve(
        *definitions: EnvironmentDefinition,
        settings: EngineSettings | None = None,
        **options: Any,
    ) -> AsyncIterator[Served]:
        async with (
            SessionManager(definitions, settings or EngineSettings()) as manager,
            Bridge(manager, **options) as bridge,
            aiohttp.ClientSession() as http,
        ):
            yield Served(manager, bridge, http, f"http://127.0.0.1:{bridge.port}")

    return serve


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open.set()


async def no_sessions(manager: SessionManager) -> None:
    """Waits until no session is left."""
    async with asyncio.timeout(5):
        while manager.sessions():
            await asyncio.sleep(0.01)


async def talk(socket: aiohttp.ClientWebSocketResponse, **frame: Any) -> dict[str, Any]:
    """Sends a frame and returns the answer."""
    await socket.send_str(json.dumps(frame))
    answer: dict[str, Any] = await socket.receive_json(timeout=10)
    return answer
