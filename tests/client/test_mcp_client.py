from __future__ import annotations

from typing import Any

import pytest

from openenv_grpc.client import GenericMCPObservation, MCPToolClient
from openenv_grpc.errors import (
    EnvironmentFailedError,
    InvalidArgumentsError,
    InvalidRequestError,
    OpenEnvError,
    ToolNotFoundError,
)
from openenv_grpc.tools import (
    CallToolAction,
    CallToolObservation,
    ListToolsAction,
    ListToolsObservation,
    ToolErrorType,
)


@pytest.fixture
def client(url: str) -> MCPToolClient:
    return MCPToolClient(url, environment="ToolEnvironment")


async def test_tools_are_listed_and_called(client: MCPToolClient) -> None:
    async with client:
        tools = await client.list_tools()
        assert [tool.name for tool in tools] == ["add", "describe", "boom"]
        assert tools[0].description == "Adds two integers."
        assert tools[0].input_schema["required"] == ["a", "b"]
        assert await client.call_tool("add", a=1, b=2) == 3
        assert await client.call_tool("describe", name="box") == {"name": "box", "size": 3}


async def test_tools_are_found_by_name(client: MCPToolClient) -> None:
    async with client:
        assert await client.has_tool("add")
        assert not await client.has_tool("nosuch")
        found = await client.get_tool("boom")
        assert found is not None
        assert found.description == "Fails."
        assert await client.get_tool("nosuch") is None


async def test_a_list_is_remembered_until_asked_anew(client: MCPToolClient) -> None:
    async with client:
        first = await client.list_tools()
        first.clear()
        assert len(await client.list_tools()) == 3
        assert len(await client.list_tools(use_cache=False)) == 3


@pytest.mark.parametrize(
    ("name", "arguments", "kind"),
    [
        ("boom", {}, EnvironmentFailedError),
        ("nosuch", {}, ToolNotFoundError),
        ("add", {"a": 1}, InvalidArgumentsError),
    ],
)
async def test_a_failed_call_raises(
    client: MCPToolClient, name: str, arguments: dict[str, Any], kind: type[OpenEnvError]
) -> None:
    async with client:
        with pytest.raises(kind):
            await client.call_tool(name, **arguments)
        assert await client.call_tool("add", a=1, b=1) == 2


async def test_steps_give_the_observation_that_fits_the_action(client: MCPToolClient) -> None:
    async with client:
        start = await client.reset()
        assert isinstance(start.observation, GenericMCPObservation)
        assert start.metadata == {"greeting": "hello"}
        listed = await client.step(ListToolsAction())
        assert isinstance(listed.observation, ListToolsObservation)
        assert len(listed.observation.tools) == 3
        called = await client.step(CallToolAction(tool_name="add", arguments={"a": 1, "b": 2}))
        assert isinstance(called.observation, CallToolObservation)
        assert str(called.observation.result) == "3"
        assert called.observation.result["data"] == 3
        failed = await client.step(CallToolAction(tool_name="nosuch"))
        assert failed.observation.error.error_type is ToolErrorType.TOOL_NOT_FOUND


async def test_an_environment_without_tools_of_its_own_raises_or_offers_its_action(
    url: str,
) -> None:
    async with MCPToolClient(url, environment="TurnEnvironment") as client:
        with pytest.raises(OpenEnvError):
            await client.call_tool("nosuch")


async def test_the_mode_is_production_and_nothing_else() -> None:
    assert MCPToolClient("grpc://127.0.0.1:1").mode == "production"
    with pytest.raises(InvalidRequestError):
        MCPToolClient("grpc://127.0.0.1:1", mode="simulation")
