"""The same call of a tool gives the same result by every door."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import aiohttp
import grpc
import mcp
import pytest

from openenv_bridge import Bridge
from openenv_grpc import GenericEnvClient, MCPToolClient, OpenEnvError
from openenv_grpc.engine import EnvironmentDefinition, SessionManager
from openenv_grpc.server import GrpcServer
from openenv_grpc.tools import CallToolAction, CallToolObservation
from openenv_grpc.v1 import episode_pb2, episode_pb2_grpc, payload_pb2, tool_pb2, tool_pb2_grpc
from tests.environments import Count, Countdown, Counted, Toolbox

CALLS = {
    "a number": ("add", {"a": 1, "b": 2}),
    "a converted argument": ("add", {"a": "1", "b": 2}),
    "an outcome": ("submit", {"answer": "42"}),
    "a failure": ("fail", {"reason": "no luck"}),
    "no such tool": ("nope", {}),
    "bad arguments": ("add", {"a": "one", "b": 2}),
}
ACTS = {
    "an action": ("act", {"by": 2, "text": "hi"}),
    "a bad action": ("act", {"by": "two"}),
    "no such tool": ("nope", {}),
}
EXPECTED: dict[str, tuple[Any, bool]] = {
    "a number": (3, False),
    "a converted argument": (3, False),
    "an outcome": ("taken", False),
    "an action": ({"left": -2, "text": "hi", "done": True}, False),
    "a failure": ("no luck", True),
    "no such tool": ("Unknown tool: 'nope'", True),
    "bad arguments": ("for tool 'add': a: Input should be a valid integer", True),
    "a bad action": ("for tool 'act': by: Input should be a valid integer", True),
}
"""What it answers, or a part of the text of its failure, and whether it fails."""


@dataclass(frozen=True)
class Doors:
    grpc_address: str
    http_address: str


@pytest.fixture
async def doors() -> AsyncIterator[Doors]:
    tools = EnvironmentDefinition(
        factory=Toolbox,
        action_type=CallToolAction,
        observation_type=CallToolObservation,
        name="toolbox",
    )
    acts = EnvironmentDefinition(
        factory=Countdown, action_type=Count, observation_type=Counted, name="countdown"
    )
    async with (
        SessionManager([tools, acts]) as manager,
        GrpcServer(manager, stop_grace_s=0) as server,
        Bridge(manager) as bridge,
    ):
        yield Doors(f"127.0.0.1:{server.ports[0]}", f"127.0.0.1:{bridge.port}")


Answer = tuple[bool, Any]
"""Whether the call went well, and the data or the text of the failure."""


async def by_step(doors: Doors, environment: str, name: str, arguments: dict[str, Any]) -> Answer:
    client = GenericEnvClient(f"grpc://{doors.grpc_address}", environment=environment)
    async with client:
        action = {"type": "call_tool", "tool_name": name, "arguments": arguments}
        return told_by_step((await client.step(action)).observation)


async def by_ws_step(
    doors: Doors, environment: str, name: str, arguments: dict[str, Any]
) -> Answer:
    data = {"type": "call_tool", "tool_name": name, "arguments": arguments}
    answer = await frame(doors, f"/{environment}/ws", {"type": "step", "data": data})
    return told_by_step(answer["data"]["observation"])


def told_by_step(observation: dict[str, Any]) -> Answer:
    if observation["error"]:
        return False, observation["error"]["message"]
    return True, observation["result"]["data"]


async def by_stream(doors: Doors, environment: str, name: str, arguments: dict[str, Any]) -> Answer:
    return await by_client(f"grpc://{doors.grpc_address}", environment, name, arguments)


async def by_binary_ws(
    doors: Doors, environment: str, name: str, arguments: dict[str, Any]
) -> Answer:
    return await by_client(f"ws://{doors.http_address}", environment, name, arguments)


async def by_client(url: str, environment: str, name: str, arguments: dict[str, Any]) -> Answer:
    async with MCPToolClient(url, environment=environment) as client:
        try:
            return True, await client.call_tool(name, **arguments)
        except OpenEnvError as error:
            return False, error.message


async def by_tool_service(
    doors: Doors, environment: str, name: str, arguments: dict[str, Any]
) -> Answer:
    async with grpc.aio.insecure_channel(doors.grpc_address) as channel:
        episodes: Any = episode_pb2_grpc.EpisodeServiceStub(channel)
        tools: Any = tool_pb2_grpc.ToolServiceStub(channel)
        opened = await episodes.Open(episode_pb2.OpenRequest(environment=environment))
        request = tool_pb2.CallToolRequest(
            session_id=opened.session_id,
            tool_name=name,
            arguments=payload_pb2.Payload(json=json.dumps(arguments)),
        )
        try:
            *_, last = [message async for message in tools.CallTool(request)]
        except grpc.aio.AioRpcError as error:
            return False, error.details()
        if last.result.failed:
            return False, last.result.contents[0].text
        return True, json.loads(last.result.structured.json)


async def by_ws_mcp_frame(
    doors: Doors, environment: str, name: str, arguments: dict[str, Any]
) -> Answer:
    sent = {"type": "mcp", "data": rpc(name, arguments)}
    return told_by_rpc((await frame(doors, f"/{environment}/ws", sent))["data"])


async def by_mcp_socket(
    doors: Doors, environment: str, name: str, arguments: dict[str, Any]
) -> Answer:
    return told_by_rpc(await frame(doors, f"/{environment}/mcp", rpc(name, arguments)))


async def by_mcp_post(
    doors: Doors, environment: str, name: str, arguments: dict[str, Any]
) -> Answer:
    url = f"http://{doors.http_address}/{environment}/mcp"
    async with (
        aiohttp.ClientSession() as http,
        http.post(url, json=rpc(name, arguments)) as response,
    ):
        return told_by_rpc(await response.json())


async def by_mcp_with_initialize(
    doors: Doors, environment: str, name: str, arguments: dict[str, Any]
) -> Answer:
    return await by_mcp_client(doors, environment, name, arguments, mode="legacy", version="2025")


async def by_mcp_without_initialize(
    doors: Doors, environment: str, name: str, arguments: dict[str, Any]
) -> Answer:
    return await by_mcp_client(doors, environment, name, arguments, mode="auto", version="2026")


async def by_mcp_client(
    doors: Doors, environment: str, name: str, arguments: dict[str, Any], *, mode: Any, version: str
) -> Answer:
    """Calls in a session that nobody has reset, as by the other doors."""
    url = f"http://{doors.http_address}/{environment}/mcp"
    async with GenericEnvClient(f"grpc://{doors.grpc_address}", environment=environment) as trainer:
        session_id = (await trainer.agent_access()).session_id
        async with mcp.Client(f"{url}?session_id={session_id}", mode=mode) as client:
            assert client.protocol_version.startswith(version)
            try:
                result = await client.call_tool(name, arguments)
            except mcp.MCPError as error:
                return False, error.message
    if result.is_error:
        return False, result.content[0].text
    structured = result.structured_content
    return True, structured["result"] if set(structured) == {"result"} else structured


def rpc(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def told_by_rpc(answer: dict[str, Any]) -> Answer:
    if "error" in answer:
        return False, answer["error"]["message"]
    return True, answer["result"]["data"]


async def frame(doors: Doors, path: str, sent: dict[str, Any]) -> Any:
    async with (
        aiohttp.ClientSession() as http,
        http.ws_connect(f"http://{doors.http_address}{path}") as socket,
    ):
        await socket.send_json(sent)
        return await socket.receive_json(timeout=30)


STEPS = [by_step, by_ws_step]
BESIDE = [
    by_stream,
    by_binary_ws,
    by_tool_service,
    by_ws_mcp_frame,
    by_mcp_socket,
    by_mcp_post,
    by_mcp_with_initialize,
    by_mcp_without_initialize,
]


@pytest.mark.parametrize(
    ("environment", "calls", "door"),
    [
        *(pytest.param("toolbox", CALLS, door, id=f"tools-{door.__name__}") for door in STEPS),
        *(pytest.param("toolbox", CALLS, door, id=f"tools-{door.__name__}") for door in BESIDE),
        *(pytest.param("countdown", ACTS, door, id=f"act-{door.__name__}") for door in BESIDE),
    ],
)
async def test_the_same_call_gives_the_same_result_by_every_door(
    doors: Doors, environment: str, calls: dict[str, tuple[str, dict[str, Any]]], door: Any
) -> None:
    for what, (name, arguments) in calls.items():
        went_well, told = await door(doors, environment, name, arguments)
        expected, fails = EXPECTED[what]
        assert went_well is not fails, what
        assert expected in told if fails else told == expected, what
