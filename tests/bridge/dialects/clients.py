from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from openenv_grpc.engine import EnvironmentDefinition
from openenv_grpc.tools import CallToolAction, CallToolObservation
from tests.bridge.conftest import Served
from tests.environments import Count, Countdown, Counted, Curious, Lonely, Toolbox

TOOLBOX = EnvironmentDefinition(
    factory=Toolbox,
    action_type=CallToolAction,
    observation_type=CallToolObservation,
    name="toolbox",
)
CURIOUS = EnvironmentDefinition(
    factory=Curious,
    action_type=CallToolAction,
    observation_type=CallToolObservation,
    name="curious",
)
COUNTDOWN = EnvironmentDefinition(
    factory=Countdown, action_type=Count, observation_type=Counted, name="countdown"
)
LONELY = EnvironmentDefinition(
    factory=Lonely, action_type=Count, observation_type=Counted, name="lonely"
)

VERSION = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientCapabilities": {},
}
ALL_OFFERED: dict[str, Any] = {"elicitation": {}, "sampling": {}, "roots": {}}
"""Capabilities of a client that can be asked for all."""
BOTH = "application/json, text/event-stream"


@dataclass
class Answered:
    """A response: `content` is its JSON, or the last event of a stream."""

    status: int
    headers: Any
    content: Any
    notices: list[Any] = field(default_factory=list)

    @property
    def result(self) -> Any:
        return self.content["result"]

    @property
    def error(self) -> Any:
        return self.content["error"]


class Client:
    """Writes requests to `/mcp` by hand."""

    def __init__(self, served: Served, path: str = "/mcp", token: str | None = None) -> None:
        self.served = served
        self.path = path
        self.headers: dict[str, str] = {"Accept": BOTH}
        if token is not None:
            self.headers["Authorization"] = f"Bearer {token}"

    async def send(self, body: Any, method: str = "POST", **headers: str) -> Answered:
        """Sends a body, with more headers, whose names have `_` for `-`."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.served.http.request(
            method, self.served.url + self.path, json=body, headers={**self.headers, **named}
        ) as response:
            return await read(response)

    async def call(self, method: str, **params: Any) -> Answered:
        """Calls a method of a version with sessions."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return await self.send(body)

    async def initialize(
        self, version: str = "2025-11-25", capabilities: dict[str, Any] | None = None
    ) -> Answered:
        """Begins a session and keeps its headers."""
        self.headers.pop("Mcp-Session-Id", None)
        self.headers.pop("MCP-Protocol-Version", None)
        info = {"name": "tests", "version": "1"}
        answered = await self.call(
            "initialize",
            protocolVersion=version,
            capabilities=capabilities or {},
            clientInfo=info,
        )
        self.headers["Mcp-Session-Id"] = answered.headers["Mcp-Session-Id"]
        self.headers["MCP-Protocol-Version"] = answered.result["protocolVersion"]
        return answered

    async def ask(self, method: str, meta: dict[str, Any] | None = None, **params: Any) -> Answered:
        """Calls a method of 2026-07-28."""
        headers = {"MCP_Protocol_Version": VERSION, "Mcp_Method": method}
        name = params.get("name") or params.get("uri")
        if name is not None:
            headers["Mcp_Name"] = name
        params["_meta"] = {**META, **(meta or {})}
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return await self.send(body, **headers)


async def read(response: aiohttp.ClientResponse) -> Answered:
    if response.content_type == "text/event-stream":
        events = [event async for event in events_of(response)]
        return Answered(response.status, response.headers, events[-1], events[:-1])
    body = await response.read()
    return Answered(response.status, response.headers, await response.json() if body else None)


async def events_of(response: aiohttp.ClientResponse) -> AsyncIterator[Any]:
    async for line in response.content:
        if line.startswith(b"data: "):
            yield json.loads(line.removeprefix(b"data: "))
