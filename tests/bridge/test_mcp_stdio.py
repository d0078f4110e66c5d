"""The relay of MCP's messages, where its connection behaves badly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import aiohttp
from multidict import CIMultiDict

from openenv_bridge.mcp.stdio import Relay

LIMIT_S = 30
INITIALIZE = b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}'
BEGUN = b'{"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": "2025-11-25"}}'


class Response:
    status = 200
    content_type = "text/event-stream"
    headers = CIMultiDict({"Mcp-Session-Id": "one"})

    async def read(self) -> bytes:
        return BEGUN


class BreaksWhenCancelled:
    """A connection that answers its cancellation by an error of its own."""

    def __init__(self) -> None:
        self.listened_to = asyncio.Event()

    @asynccontextmanager
    async def post(self, url: str, **_: Any) -> AsyncIterator[Response]:
        yield Response()

    delete = post

    @asynccontextmanager
    async def get(self, url: str, **_: Any) -> AsyncIterator[Response]:
        self.listened_to.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as error:
            raise aiohttp.ClientConnectionError("closed") from error
        yield Response()


async def test_the_relay_ends_though_its_stream_breaks_at_the_end() -> None:
    http = BreaksWhenCancelled()

    async def lines() -> AsyncIterator[bytes]:
        yield INITIALIZE
        await http.listened_to.wait()

    written: list[bytes] = []
    relay = Relay(cast("aiohttp.ClientSession", http), "http://server/mcp", written.append)
    async with asyncio.timeout(LIMIT_S):
        await relay.run(lines())
    assert written == [BEGUN]
