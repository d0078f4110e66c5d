"""Clients that others wrote, which tools ask: their user, their model and their roots."""

from __future__ import annotations

import asyncio
from typing import Any

import fastmcp
import mcp
import mcp_types
import pytest
from fastmcp.client.elicitation import ElicitResult

from tests.bridge.conftest import Serve
from tests.bridge.dialects.clients import CURIOUS

MODES = ["legacy", "auto"]
ALL_ANSWERED = "Hi, hello Ada: file:///work"


async def elicited(context: Any, params: Any) -> mcp_types.ElicitResult:
    assert params.message == "Who are you?"
    return mcp_types.ElicitResult(action="accept", content={"name": "Ada"})


async def sampled(context: Any, params: Any) -> mcp_types.CreateMessageResult:
    assert params.messages[0].content.text == "Hi"
    content = mcp_types.TextContent(type="text", text="Hi")
    return mcp_types.CreateMessageResult(role="assistant", content=content, model="m")


async def rooted(context: Any) -> mcp_types.ListRootsResult:
    return mcp_types.ListRootsResult(roots=[mcp_types.Root(uri="file:///work")])


@pytest.mark.parametrize("mode", MODES)
async def test_mcp2_is_asked_for_all(serve: Serve, mode: Any) -> None:
    async with (
        serve(CURIOUS) as served,
        asyncio.timeout(60),
        mcp.Client(
            served.url + "/mcp",
            mode=mode,
            elicitation_callback=elicited,
            sampling_callback=sampled,
            list_roots_callback=rooted,
        ) as client,
    ):
        told = await client.call_tool("ask_all", {})
        assert told.content[0].text == ALL_ANSWERED
        letter = await client.get_prompt("letter") if mode == "auto" else None
        assert letter is None or letter.messages[0].content.text == "Dear Ada"


@pytest.mark.parametrize("mode", MODES)
async def test_mcp2_without_callbacks_is_told_what_is_missing(serve: Serve, mode: Any) -> None:
    async with (
        serve(CURIOUS) as served,
        asyncio.timeout(60),
        mcp.Client(served.url + "/mcp", mode=mode) as client,
    ):
        if mode == "legacy":
            assert (await client.call_tool("greet", {})).is_error
        else:
            with pytest.raises(mcp.MCPError, match="elicitation"):
                await client.call_tool("greet", {})
        modest = await client.call_tool("modest", {})
        assert modest.content[0].text == "hello, whoever you are"


@pytest.mark.parametrize("mode", MODES)
async def test_fastmcp_is_asked_for_all(serve: Serve, mode: Any) -> None:
    async def answer(message: str, response_type: Any, params: Any, context: Any) -> Any:
        return ElicitResult(action="accept", content={"name": "Ada"})

    async def say(messages: Any, params: Any, context: Any) -> str:
        return "Hi"

    async with (
        serve(CURIOUS) as served,
        asyncio.timeout(60),
        fastmcp.Client(
            served.url + "/mcp",
            mode=mode,
            elicitation_handler=answer,
            sampling_handler=say,
            roots=["file:///work"],
        ) as client,
    ):
        assert (await client.call_tool("ask_all", {})).data == ALL_ANSWERED
