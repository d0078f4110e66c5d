"""A tool that asks, by doors whose callers have no client of MCP: each says so in its way."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from openenv_grpc import MCPToolClient, Server
from openenv_grpc.errors import ClientCapabilityError, Reason
from openenv_grpc.tools import CallToolAction, ToolErrorType
from tests.environments import Curious

CURIOUS = "tests.environments:Curious"
MADE_DO = "hello, whoever you are"


async def test_over_grpc_a_call_fails_with_its_reason() -> None:
    async with (
        Server(CURIOUS, grpc_port=0, http_port=None) as server,
        MCPToolClient(f"grpc://{server.grpc_address}") as client,
    ):
        await client.reset()
        with pytest.raises(ClientCapabilityError, match="elicitation") as refused:
            await client.call_tool("greet")
        assert refused.value.reason is Reason.CLIENT_CAPABILITY_MISSING
        assert not refused.value.session_lost
        assert await client.call_tool("modest") == MADE_DO


async def test_in_openenvs_dialect_it_is_an_error_of_json_rpc() -> None:
    async with (
        Server(CURIOUS, grpc_port=None, http_port=0) as server,
        aiohttp.ClientSession(f"http://{server.http_address}") as http,
    ):

        async def call(name: str) -> Any:
            params = {"name": name, "arguments": {}}
            request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            async with http.post("/mcp", json=request) as response:
                return await response.json()

        refused = (await call("greet"))["error"]
        assert refused["code"] == -32603
        assert "elicitation, which that does not offer" in refused["message"]
        assert (await call("modest"))["result"]["data"] == MADE_DO


def test_in_a_step_it_is_an_error_of_the_observation() -> None:
    environment = Curious()
    observation: Any = environment.step(CallToolAction(tool_name="greet", arguments={}))
    assert observation.error.error_type is ToolErrorType.EXECUTION_ERROR
    assert "elicitation" in observation.error.message
    environment.close()
