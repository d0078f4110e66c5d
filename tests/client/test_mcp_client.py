from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
import pytest

from openenv_grpc.client import GenericMCPObservation, MCPToolClient
from openenv_grpc.errors import (
    EnvironmentFailedError,
    InvalidArgumentsError,
    InvalidRequestError,
    ModeForbidsError,
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
from openenv_grpc.types import ServerMode
from tests.client.conftest import TOOLS, serve_environments


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


async def test_an_environment_without_tools_of_its_own_offers_its_action(url: str) -> None:
    async with MCPToolClient(url, environment="TurnEnvironment") as client:
        assert [tool.name for tool in await client.list_tools()] == ["act"]
        seen = await client.call_tool("act", op="say", text="hello")
        assert (seen["text"], seen["turn"], seen["done"]) == ("hello", 1, False)
        assert (await client.evaluate()).reward == 0.5
        with pytest.raises(ToolNotFoundError):
            await client.call_tool("nosuch")
        with pytest.raises(InvalidArgumentsError, match="op: Input should be 'say'"):
            await client.call_tool("act", op="shout")


@pytest.mark.parametrize("door", ["grpc", "unix", "ws", "http"])
async def test_tools_work_in_production_mode_by_every_door(door: str, tmp_path: Path) -> None:
    definition = replace(TOOLS, mode=ServerMode.PRODUCTION)
    async with (
        serve_environments(definition, path=tmp_path) as urls,
        MCPToolClient(urls[door]) as client,
    ):
        assert await client.has_tool("add")
        assert await client.call_tool("add", a=1, b=2) == 3
        with pytest.raises(EnvironmentFailedError, match="it broke"):
            await client.call_tool("boom")
        with pytest.raises(ModeForbidsError):
            await client.reset()
        assert await client.call_tool("add", a=2, b=2) == 4


async def test_a_call_of_a_tool_is_no_step(client: MCPToolClient) -> None:
    async with client:
        await client.reset()
        await client.call_tool("add", a=1, b=2)
        assert (await client.state()).step_count == 0


async def test_arguments_that_do_not_fit_or_cannot_be_sent_are_refused(
    client: MCPToolClient,
) -> None:
    async with client:
        with pytest.raises(InvalidArgumentsError):
            await client.call_tool("add", a=numpy.zeros(2), b=1)
        with pytest.raises(InvalidRequestError, match="the arguments of add cannot be sent"):
            await client.call_tool("add", a=object(), b=1)


async def test_the_mode_is_production_and_nothing_else() -> None:
    assert MCPToolClient("grpc://127.0.0.1:1").mode == "production"
    with pytest.raises(InvalidRequestError):
        MCPToolClient("grpc://127.0.0.1:1", mode="simulation")
