"""Plays a countdown by the client of the package `mcp` 1: `play_by_mcp1.py URL`."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client


async def play(url: str, by: int) -> dict[str, Any]:
    async with (
        streamablehttp_client(url) as (receive, send, _),
        ClientSession(receive, send) as client,
    ):
        begun = await client.initialize()
        tools = await client.list_tools()
        left = []
        for _ in range(3):
            result = await client.call_tool("act", {"by": by})
            left.append((result.structuredContent or {})["left"])
        refused = await client.call_tool("act", {"by": "many"})
        return {
            "version": begun.protocolVersion,
            "began": "observation" in (begun.instructions or ""),
            "tools": [tool.name for tool in tools.tools],
            "left": left,
            "refused": bool(refused.isError),
        }


async def main(url: str) -> None:
    print(json.dumps(await asyncio.gather(*(play(url, by) for by in (1, 2, 3)))))


asyncio.run(main(sys.argv[1]))
