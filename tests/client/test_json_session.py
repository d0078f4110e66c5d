from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from openenv_grpc.client import GenericEnvClient, MCPToolClient
from openenv_grpc.errors import (
    DeadlineExceededError,
    Effect,
    EnvironmentFactoryError,
    EnvironmentFailedError,
    InvalidActionError,
    NotSupportedError,
    OpenEnvError,
    ProtocolViolationError,
    SessionCapacityError,
    SessionClosedError,
    ToolNotFoundError,
    UnavailableError,
)
from tests.client.peers import serve_socket

Reply = Callable[[dict[str, Any]], dict[str, Any]]


def talking(reply: Reply) -> Callable[[web.WebSocketResponse], Awaitable[None]]:
    async def talk(socket: web.WebSocketResponse) -> None:
        async for message in socket:
            frame = json.loads(message.data)
            if frame["type"] == "close":
                break
            await socket.send_json(reply(frame))

    return talk


def echo(frame: dict[str, Any]) -> dict[str, Any]:
    data = {"observation": frame.get("data", {}), "reward": 1, "done": False}
    return {"type": "observation", "data": data}


def failing(**data: Any) -> Reply:
    return lambda _frame: {"type": "error", "data": data}


async def test_arrays_travel_as_lists() -> None:
    numpy = pytest.importorskip("numpy")
    async with (
        serve_socket(talking(echo), binary=False) as url,
        GenericEnvClient(url) as client,
    ):
        result = await client.step({"frame": numpy.arange(3)})
        assert result.observation == {"frame": [0, 1, 2]}
        assert result.reward == 1


async def test_keywords_of_a_step_are_refused_as_the_protocol_has_none() -> None:
    async with (
        serve_socket(talking(echo), binary=False) as url,
        GenericEnvClient(url) as client,
    ):
        with pytest.raises(NotSupportedError, match="effort"):
            await client.step({}, effort=3)


async def test_evaluate_is_not_supported() -> None:
    async with (
        serve_socket(talking(echo), binary=False) as url,
        GenericEnvClient(url) as client,
    ):
        with pytest.raises(NotSupportedError):
            await client.evaluate()


async def test_snapshots_are_not_supported() -> None:
    async with (
        serve_socket(talking(echo), binary=False) as url,
        GenericEnvClient(url) as client,
    ):
        with pytest.raises(NotSupportedError, match="has no snapshots"):
            await client.snapshot()
        with pytest.raises(NotSupportedError, match="leave snapshot_id out"):
            await GenericEnvClient(url, snapshot_id="some").connect()


async def test_access_for_agents_is_not_supported() -> None:
    async with (
        serve_socket(talking(echo), binary=False) as url,
        GenericEnvClient(url) as client,
    ):
        with pytest.raises(NotSupportedError, match="access for agents"):
            await client.agent_access()


async def test_truncated_beside_done_is_understood() -> None:
    def reply(_frame: dict[str, Any]) -> dict[str, Any]:
        data = {"observation": {}, "reward": None, "done": True, "truncated": True}
        return {"type": "observation", "data": data}

    async with (
        serve_socket(talking(reply), binary=False) as url,
        GenericEnvClient(url) as client,
    ):
        result = await client.step({})
        assert (result.done, result.terminated, result.truncated) == (True, False, True)


@pytest.mark.parametrize(
    ("data", "kind", "effect", "lost"),
    [
        (
            {"code": "CAPACITY_REACHED", "active_sessions": 1, "max_sessions": 1},
            SessionCapacityError,
            Effect.NONE,
            True,
        ),
        ({"code": "FACTORY_ERROR"}, EnvironmentFactoryError, Effect.NONE, True),
        ({"code": "SESSION_ERROR"}, SessionClosedError, Effect.UNKNOWN, True),
        ({"code": "EXECUTION_ERROR"}, EnvironmentFailedError, Effect.UNKNOWN, False),
        (
            {
                "code": "VALIDATION_ERROR",
                "errors": [{"loc": ["a", 0], "type": "missing", "msg": "Field required"}],
            },
            InvalidActionError,
            Effect.NONE,
            False,
        ),
        ({"code": "UNKNOWN_TYPE"}, NotSupportedError, Effect.NONE, False),
    ],
    ids=lambda value: value["code"] if isinstance(value, dict) else "",
)
async def test_error_frames_become_typed_errors(
    data: dict[str, Any], kind: type[OpenEnvError], effect: Effect, lost: bool
) -> None:
    async with (
        serve_socket(talking(failing(message="why", **data)), binary=False) as url,
        GenericEnvClient(url) as client,
    ):
        with pytest.raises(kind, match="why") as caught:
            await client.step({})
        assert caught.value.metadata["code"] == data["code"]
        assert caught.value.effect is effect
        assert caught.value.session_lost is lost


async def test_an_error_at_capacity_says_so_in_its_text() -> None:
    reply = failing(message="full", code="CAPACITY_REACHED", active_sessions=2, max_sessions=3)
    async with (
        serve_socket(talking(reply), binary=False) as url,
        GenericEnvClient(url) as client,
    ):
        with pytest.raises(SessionCapacityError) as caught:
            await client.reset()
        assert "CAPACITY_REACHED" in str(caught.value)
        assert caught.value.metadata["active_sessions"] == "2"
        assert caught.value.metadata["max_sessions"] == "3"


async def test_violations_tell_where() -> None:
    errors = [{"loc": ["a", 0], "type": "missing", "msg": "Field required"}]
    reply = failing(message="Invalid message", code="VALIDATION_ERROR", errors=errors)
    async with (
        serve_socket(talking(reply), binary=False) as url,
        GenericEnvClient(url) as client,
    ):
        with pytest.raises(InvalidActionError, match="/a/0: Field required") as caught:
            await client.step({})
        assert caught.value.violations[0].path == "/a/0"


async def test_a_refusal_before_the_first_call_is_its_answer() -> None:
    async def refuse(socket: web.WebSocketResponse) -> None:
        data = {"message": "full", "code": "CAPACITY_REACHED"}
        await socket.send_json({"type": "error", "data": data})
        await socket.close()

    async with serve_socket(refuse, binary=False) as url:
        client = GenericEnvClient(url)
        await client.connect()
        with pytest.raises(SessionCapacityError):
            await client.reset()
        await client.close()


async def test_late_answers_are_dropped_and_the_next_call_gets_its_own() -> None:
    released = asyncio.Event()

    async def talk(socket: web.WebSocketResponse) -> None:
        async for message in socket:
            frame = json.loads(message.data)
            if frame["type"] == "close":
                break
            if frame["data"].get("slow"):
                await released.wait()
            await socket.send_json(echo(frame))

    async with serve_socket(talk, binary=False) as url, GenericEnvClient(url) as client:
        with pytest.raises(DeadlineExceededError) as caught:
            await client.step({"slow": True}, timeout_s=0.1)
        assert caught.value.effect is Effect.UNKNOWN
        step = asyncio.create_task(client.step({"slow": False}))
        released.set()
        assert (await step).observation == {"slow": False}


async def test_a_cancelled_call_leaves_the_next_one_its_answer() -> None:
    arrived, released = asyncio.Event(), asyncio.Event()

    async def talk(socket: web.WebSocketResponse) -> None:
        async for message in socket:
            frame = json.loads(message.data)
            if frame["type"] == "close":
                break
            arrived.set()
            await released.wait()
            await socket.send_json(echo(frame))

    async with serve_socket(talk, binary=False) as url, GenericEnvClient(url) as client:
        step = asyncio.create_task(client.step({"n": 1}))
        await arrived.wait()
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step
        released.set()
        assert (await client.step({"n": 2})).observation == {"n": 2}


async def test_a_lost_socket_loses_the_session_until_the_next_reset() -> None:
    sockets: list[web.WebSocketResponse] = []

    async def talk(socket: web.WebSocketResponse) -> None:
        sockets.append(socket)
        async for message in socket:
            frame = json.loads(message.data)
            if frame["type"] in ("step", "close"):
                break
            await socket.send_json(echo(frame))

    async with serve_socket(talk, binary=False) as url, GenericEnvClient(url) as client:
        await client.reset()
        with pytest.raises(UnavailableError) as caught:
            await client.step({})
        assert caught.value.effect is Effect.UNKNOWN
        assert caught.value.session_lost
        with pytest.raises(UnavailableError, match=r"call reset\(\)"):
            await client.state()
        await client.reset()
        assert len(sockets) == 2


@pytest.mark.parametrize("frame", ["no json", "[]", '{"type":"state","data":{}}'])
async def test_a_broken_frame_is_a_violation(frame: str) -> None:
    async def talk(socket: web.WebSocketResponse) -> None:
        async for _message in socket:
            await socket.send_str(frame)

    async with serve_socket(talk, binary=False) as url, GenericEnvClient(url) as client:
        with pytest.raises(ProtocolViolationError):
            await client.step({})


async def test_an_environment_cannot_be_named_to_a_reference_server() -> None:
    async with serve_socket(talking(echo), binary=False) as url:
        client = GenericEnvClient(url, environment="chess")
        with pytest.raises(NotSupportedError, match="chess"):
            await client.connect()
        await client.close()


async def test_each_session_has_a_socket_of_its_own() -> None:
    sockets: list[web.WebSocketResponse] = []

    async def talk(socket: web.WebSocketResponse) -> None:
        sockets.append(socket)
        await talking(echo)(socket)

    async with serve_socket(talk, binary=False) as url:
        clients = [GenericEnvClient(url) for _ in range(4)]
        await asyncio.gather(*(client.reset() for client in clients))
        assert len(sockets) == 4
        await asyncio.gather(*(client.close() for client in clients))


async def test_tools_are_asked_for_in_json_rpc() -> None:
    seen: list[dict[str, Any]] = []

    def reply(frame: dict[str, Any]) -> dict[str, Any]:
        seen.append(frame)
        match frame["data"]["params"].get("name"):
            case None:
                tool = {"name": "add", "description": "Adds.", "inputSchema": {"type": "object"}}
                result: dict[str, Any] = {"result": {"tools": [tool]}}
            case "add":
                result = {"result": {"content": [], "data": 3, "is_error": False}}
            case _:
                result = {"error": {"code": -32603, "message": "Unknown tool: 'x'"}}
        return {"type": "mcp", "data": {"jsonrpc": "2.0", "id": frame["data"]["id"], **result}}

    async with serve_socket(talking(reply), binary=False) as url, MCPToolClient(url) as client:
        assert [tool.name for tool in await client.list_tools()] == ["add"]
        assert await client.call_tool("add", a=1, b=2) == 3
        with pytest.raises(ToolNotFoundError):
            await client.call_tool("x")
        assert seen[1]["data"] == {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "add", "arguments": {"a": 1, "b": 2}},
        }


async def test_failures_to_list_tools_raise() -> None:
    def reply(_frame: dict[str, Any]) -> dict[str, Any]:
        error = {"code": -32603, "message": "Environment does not support MCP"}
        return {"type": "mcp", "data": {"error": error}}

    async with serve_socket(talking(reply), binary=False) as url, MCPToolClient(url) as client:
        with pytest.raises(NotSupportedError):
            await client.list_tools()
