"""Clients that others wrote, against `/mcp`: each plays whole episodes, three at once."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fastmcp
import mcp
import pytest

from openenv_grpc.targets import load
from tests.bridge.conftest import Serve, Served
from tests.bridge.dialects.clients import COUNTDOWN
from tests.bridge.vector_server import reference_python

PLAY_BY_MCP1 = Path(__file__).with_name("play_by_mcp1.py")
PLAYED = {1: [2, 1, 0], 2: [1, -1, -3], 3: [0, -3, -6]}
"""What is left after each of three steps, by how much a step takes."""

MODES = ["legacy", "auto"]


async def play_by_mcp2(url: str, by: int, mode: Any) -> list[int]:
    async with mcp.Client(url, mode=mode) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["act"]
        left = []
        arguments: dict[str, Any] = {"by": by}
        for _ in range(3):
            result = await client.call_tool("act", arguments)
            assert not result.is_error
            left.append(result.structured_content["left"])
            arguments |= named_in(result.meta)
        refused = await client.call_tool("act", {**arguments, "by": "many"})
        assert refused.is_error
        with pytest.raises(mcp.MCPError, match="Unknown tool"):
            await client.call_tool("nope", {})
        return left


async def play_by_fastmcp(url: str, by: int, mode: Any) -> list[int]:
    async with fastmcp.Client(url, mode=mode) as client:
        left = []
        arguments: dict[str, Any] = {"by": by}
        for _ in range(3):
            result = await client.call_tool("act", arguments)
            left.append(result.structured_content["left"])
            arguments |= named_in(result.meta)
        return left


def named_in(meta: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns the argument by which a client without a session goes on in the one it began."""
    handle = (meta or {}).get("openenv-grpc/session")
    return {"openenv_session": handle} if handle else {}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("play", [play_by_mcp2, play_by_fastmcp])
async def test_three_clients_at_once_play_an_episode_each(
    serve: Serve, play: Any, mode: str
) -> None:
    async with serve(COUNTDOWN) as served, asyncio.timeout(60):
        played = await asyncio.gather(*(play(served.url + "/mcp", by, mode) for by in PLAYED))
        assert played == list(PLAYED.values())
        assert len(served.manager.sessions()) == (0 if mode == "legacy" else 3)


@pytest.mark.parametrize("mode", MODES)
async def test_echo_gives_back_what_it_is_told(serve: Serve, mode: Any) -> None:
    async with serve(load("echo_env")) as served, asyncio.timeout(60):
        async with mcp.Client(served.url + "/mcp", mode=mode) as client:
            result = await client.call_tool("echo_message", {"message": "hello"})
            assert result.content[0].text == "hello"
        async with fastmcp.Client(served.url + "/mcp", mode=mode) as fast:
            assert (await fast.call_tool("echo_message", {"message": "hello"})).data == "hello"


@pytest.mark.parametrize("mode", MODES)
async def test_mcp2_reads_the_first_observation(serve: Serve, mode: Any) -> None:
    async with (
        serve(COUNTDOWN) as served,
        mcp.Client(served.url + "/mcp", mode=mode) as client,
    ):
        [listed] = (await client.list_resources()).resources
        [content] = (await client.read_resource(listed.uri)).contents
        assert json.loads(content.text)["left"] == 3


@pytest.mark.reference
async def test_three_clients_of_mcp1_play_an_episode_each(serve: Serve) -> None:
    async with serve(COUNTDOWN) as served:
        told = await played_by_mcp1(served)
        assert [each["left"] for each in told] == list(PLAYED.values())
        assert {each["version"] for each in told} == {"2025-11-25"}
        assert all(each["began"] and each["refused"] for each in told)
        assert told[0]["tools"] == ["act"]


async def played_by_mcp1(served: Served) -> list[dict[str, Any]]:
    process = await asyncio.create_subprocess_exec(
        reference_python(),
        str(PLAY_BY_MCP1),
        served.url + "/mcp",
        stdout=asyncio.subprocess.PIPE,
        stderr=sys.stderr,
    )
    async with asyncio.timeout(100):
        output, _ = await process.communicate()
    assert process.returncode == 0
    told: list[dict[str, Any]] = json.loads(output)
    return told
