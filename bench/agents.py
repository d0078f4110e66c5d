"""Agents that call a tool by each door, over a connection that they keep. Only the wire, no SDK."""

from __future__ import annotations

import json
from typing import Any, Self

import aiohttp
import grpc.aio

from openenv_grpc.v1 import (
    episode_pb2,
    episode_pb2_grpc,
    payload_pb2,
    tool_pb2,
    tool_pb2_grpc,
)

TOOL = "act"
"""What every environment has that has no tools of its own."""

LEGACY = "2025-11-25"
MODERN = "2026-07-28"
_META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}


def _request(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


class OpenEnvAgent:
    """Posts to `/mcp` as OpenEnv's clients do, in a session that it opens."""

    def __init__(self, *, base_url: str) -> None:
        self._url = f"{base_url}/mcp"
        self._headers = {"Accept": "application/json, text/event-stream"}
        self._named: dict[str, Any] = {}
        self._http: aiohttp.ClientSession

    async def connect(self) -> Self:
        self._http = aiohttp.ClientSession()
        await self._begin()
        return self

    async def _begin(self) -> None:
        self._named["session_id"] = (await self._ask("openenv/session/create"))["session_id"]

    async def reset(self) -> None:
        """Does nothing: agents cannot."""

    async def step(self, action: dict[str, Any]) -> None:
        """Calls the tool."""
        await self._call(action)

    async def _call(self, action: dict[str, Any]) -> None:
        await self._ask("tools/call", name=TOOL, arguments=action, **self._named)

    async def _ask(self, method: str, **params: Any) -> Any:
        return self._result(await self._sent(_request(method, **params)))

    async def _sent(self, body: dict[str, Any]) -> Any:
        async with self._http.post(self._url, json=body, headers=self._headers) as response:
            session_id = response.headers.get("Mcp-Session-Id")
            if session_id is not None:
                self._headers["Mcp-Session-Id"] = session_id
            return await response.json()

    def _result(self, answer: Any) -> Any:
        if "error" in answer or answer["result"].get("isError"):
            raise RuntimeError(f"the call failed: {answer}")
        return answer["result"]

    async def close(self) -> None:
        await self._http.close()


class LegacyAgent(OpenEnvAgent):
    """Begins with `initialize`."""

    async def _begin(self) -> None:
        info = {"name": "bench", "version": "1"}
        await self._ask("initialize", protocolVersion=LEGACY, capabilities={}, clientInfo=info)
        self._headers["MCP-Protocol-Version"] = LEGACY


class ModernAgent(OpenEnvAgent):
    """Has no session of the protocol's: the URL names the environment's."""

    async def _begin(self) -> None:
        session_id = (await self._ask("openenv/session/create"))["session_id"]
        self._url += f"?session_id={session_id}"
        self._headers |= {
            "MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": TOOL,
        }  # fmt: skip

    async def _call(self, action: dict[str, Any]) -> None:
        await self._ask("tools/call", name=TOOL, arguments=action, _meta=_META)


class FrameAgent(OpenEnvAgent):
    """Sends frames of type `mcp` on `/ws`, beside a trainer's."""

    def __init__(self, *, base_url: str) -> None:
        super().__init__(base_url=base_url)
        self._url = f"{base_url}/ws"
        self._socket: aiohttp.ClientWebSocketResponse

    async def _begin(self) -> None:
        self._socket = await self._http.ws_connect(self._url)

    async def _sent(self, body: dict[str, Any]) -> Any:
        await self._socket.send_str(json.dumps({"type": "mcp", "data": body}))
        return json.loads(await self._socket.receive_str())["data"]

    async def close(self) -> None:
        await self._socket.close()
        await super().close()


class ToolServiceAgent:
    """Calls `ToolService`, an RPC for each call."""

    def __init__(self, *, base_url: str) -> None:
        self._address = base_url.removeprefix("grpc://")
        self._session_id = ""
        self._channel: grpc.aio.Channel
        self._tools: Any

    async def connect(self) -> Self:
        self._channel = grpc.aio.insecure_channel(self._address)
        self._tools = tool_pb2_grpc.ToolServiceStub(self._channel)
        episodes: Any = episode_pb2_grpc.EpisodeServiceStub(self._channel)
        self._session_id = (await episodes.Open(episode_pb2.OpenRequest())).session_id
        return self

    async def reset(self) -> None:
        """Does nothing: agents cannot."""

    async def step(self, action: dict[str, Any]) -> None:
        """Calls the tool."""
        request = tool_pb2.CallToolRequest(
            session_id=self._session_id,
            tool_name=TOOL,
            arguments=payload_pb2.Payload(json=json.dumps(action)),
        )
        *_, last = [message async for message in self._tools.CallTool(request)]
        if last.result.failed:
            raise RuntimeError(f"the call failed: {last}")

    async def close(self) -> None:
        await self._channel.close()
