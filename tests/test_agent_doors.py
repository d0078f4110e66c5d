"""With an agent's token no door gives reset, step, state, another session's tools, or the grader.

One test a door, of a server that asks trainers for tokens, and of one that gives them to agents
alone.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import aiohttp
import grpc
import pytest

from openenv_grpc import GenericEnvClient, Server
from openenv_grpc.engine import EnvironmentDefinition
from openenv_grpc.errors import PermissionDeniedError, UnauthenticatedError
from openenv_grpc.tools import CallToolAction, CallToolObservation
from openenv_grpc.v1 import (
    episode_pb2,
    episode_pb2_grpc,
    payload_pb2,
    session_pb2,
    session_pb2_grpc,
    tool_pb2,
    tool_pb2_grpc,
)
from tests.environments import Toolbox

TRAINER = "trainer-token-of-the-tests"
MODERN = "2026-07-28"
GRADES = ("reset", "step", "state", "evaluate", "close")


@dataclass(frozen=True)
class Episode:
    """Two sessions of a trainer's, and the token of the first one's agent."""

    server: Server
    trainer: str | None
    own: str
    other: str
    agent: str

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.agent}"}

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        return (("authorization", f"Bearer {self.agent}"),)

    @property
    def http(self) -> str:
        return f"http://{self.server.http_address}"

    def client(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(headers=self.bearer)

    def channel(self) -> grpc.aio.Channel:
        return grpc.aio.insecure_channel(str(self.server.grpc_address))


@pytest.fixture(params=["trainers have tokens", "agents alone have tokens"])
async def episode(request: pytest.FixtureRequest) -> AsyncIterator[Episode]:
    tools = EnvironmentDefinition(
        factory=Toolbox,
        action_type=CallToolAction,
        observation_type=CallToolObservation,
        name="toolbox",
    )
    trainer = TRAINER if request.param.startswith("trainers") else None
    options: Any = {"agent_tokens": True} if trainer is None else {"tokens": trainer}
    async with Server(tools, grpc_port=0, http_port=0, **options) as server:
        url = f"grpc://{server.grpc_address}"
        async with (
            GenericEnvClient(url, token=trainer) as first,
            GenericEnvClient(url, token=trainer) as second,
        ):
            await first.reset()
            await second.reset()
            own, other = await first.agent_access(), await second.agent_access()
            yield Episode(server, trainer, own.session_id, other.session_id, own.token)
            # Nothing has been done in either by the agent, and the trainer reads the verdict.
            for each in (first, second):
                assert (await each.state())["step_count"] == 0
                assert not (await each.evaluate()).done


async def status_of(call: Any) -> str:
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return str(error.code().name)
    return "OK"


async def test_connect_is_closed(episode: Episode) -> None:
    async with episode.channel() as channel:
        stub = session_pb2_grpc.SessionServiceStub(channel)
        for operation in (
            session_pb2.Operation(session=0, reset_episode=session_pb2.ResetEpisode()),
            session_pb2.Operation(
                session=1, control_id=1, attach=session_pb2.Attach(session_id=episode.own)
            ),
        ):
            call = stub.Connect(metadata=episode.metadata)
            await call.write(session_pb2.ConnectRequest(operations=[operation]))
            assert await status_of(call.read()) == "PERMISSION_DENIED"


@pytest.mark.parametrize("method", ["Open", "Reset", "Step", "GetState", "Evaluate", "Close"])
async def test_the_episode_service_is_closed(episode: Episode, method: str) -> None:
    async with episode.channel() as channel:
        request = getattr(episode_pb2, f"{method}Request")()
        if method != "Open":
            request.session_id = episode.own
        call = getattr(episode_pb2_grpc.EpisodeServiceStub(channel), method)
        assert await status_of(call(request, metadata=episode.metadata)) == "PERMISSION_DENIED"


async def test_the_tool_service_has_the_tools_of_its_session_alone(episode: Episode) -> None:
    async with episode.channel() as channel:
        stub = tool_pb2_grpc.ToolServiceStub(channel)
        listed = await stub.ListTools(tool_pb2.ListToolsRequest(), metadata=episode.metadata)
        assert "add" in {tool.name for tool in listed.tools}
        assert not {tool.name for tool in listed.tools} & set(GRADES)
        for name in GRADES:
            call = stub.CallTool(
                tool_pb2.CallToolRequest(tool_name=name), metadata=episode.metadata
            )
            assert await status_of(call.read()) == "NOT_FOUND"
        arguments = payload_pb2.Payload(json=json.dumps({"a": 1, "b": 2}))
        request = tool_pb2.CallToolRequest(
            session_id=episode.other, tool_name="add", arguments=arguments
        )
        called = stub.CallTool(request, metadata=episode.metadata)
        assert await status_of(called.read()) == "PERMISSION_DENIED"


@pytest.mark.parametrize("subprotocol", ["", "openenv-grpc.v1"], ids=["JSON", "binary"])
@pytest.mark.parametrize(
    "path", ["/ws", "/toolbox/ws", "/ws?session_id=OWN", "/ws?session_id=OTHER"]
)
async def test_a_websocket_is_closed(episode: Episode, path: str, subprotocol: str) -> None:
    path = path.replace("OWN", episode.own).replace("OTHER", episode.other)
    protocols = (subprotocol,) if subprotocol else ()
    async with episode.client() as http:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await http.ws_connect(episode.http + path, protocols=protocols)
    assert refused.value.status == 403


@pytest.mark.parametrize("route", ["POST /reset", "POST /step", "GET /state"])
@pytest.mark.parametrize("before", ["", "/toolbox"])
async def test_http_is_closed(episode: Episode, route: str, before: str) -> None:
    method, _, path = route.partition(" ")
    async with (
        episode.client() as http,
        http.request(method, f"{episode.http}{before}{path}", json={"action": {}}) as response,
    ):
        assert response.status == 403


@pytest.mark.parametrize(
    "route",
    [
        "GET /web", "GET /web/", "POST /web/reset", "POST /web/step", "GET /web/state",
        "GET /toolbox/web", "POST /toolbox/web/reset", "GET /ws/ui",
    ],
)  # fmt: skip
async def test_the_web_page_is_closed(episode: Episode, route: str) -> None:
    method, _, path = route.partition(" ")
    async with (
        episode.client() as http,
        http.request(method, episode.http + path, json={"action": {}}) as response,
    ):
        assert response.status == 403


@pytest.mark.parametrize("dialect", ["openenv", "2025-11-25", MODERN])
@pytest.mark.parametrize("named", [*GRADES, "another session"])
async def test_mcp_has_the_tools_of_its_session_alone(
    episode: Episode, dialect: str, named: str
) -> None:
    async with episode.client() as http:
        listed = await ask(http, episode, dialect, "tools/list", {})
        names = {tool["name"] for tool in listed[1]["result"]["tools"]}
        assert "add" in names
        assert not names & set(GRADES)
        if named != "another session":
            status, answer = await ask(http, episode, dialect, named, {})
            assert answer["error"]["code"] == -32601
            params: dict[str, Any] = {"name": named, "arguments": {}}
            status, answer = await ask(http, episode, dialect, "tools/call", params)
            assert "error" in answer
            return
        status, answer = await ask(
            http, episode, dialect, "tools/list", {}, session_id=episode.other
        )
        assert status == (404 if dialect == "2025-11-25" else 403)


async def ask(
    http: aiohttp.ClientSession,
    episode: Episode,
    dialect: str,
    method: str,
    params: dict[str, Any],
    session_id: str = "",
) -> tuple[int, Any]:
    """Asks as a client of a dialect does that names a session, if one is given."""
    headers, url = {"Accept": "application/json"}, f"{episode.http}/mcp"
    if session_id:
        params = {**params, "session_id": session_id}
        url += f"?session_id={session_id}"
    if dialect == MODERN:
        meta = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        params = {**params, "_meta": meta}
        headers |= {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
        headers["Mcp-Name"] = str(params.get("name", ""))
    elif dialect != "openenv":
        begun = {
            "protocolVersion": dialect,
            "capabilities": {},
            "clientInfo": {"name": "tests", "version": "1"},
        }
        body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": begun}
        async with http.post(url, json=body, headers=headers) as response:
            # The token says which session is meant, whatever the URL names.
            headers["Mcp-Session-Id"] = response.headers["Mcp-Session-Id"]
        if session_id:
            headers["Mcp-Session-Id"] = session_id
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    async with http.post(url, json=body, headers=headers) as response:
        return response.status, await response.json()


async def test_a_socket_on_mcp_has_the_tools_of_its_session_alone(episode: Episode) -> None:
    async with (
        episode.client() as http,
        http.ws_connect(f"{episode.http}/mcp") as socket,
    ):
        for method in GRADES:
            await socket.send_json({"jsonrpc": "2.0", "id": 1, "method": method, "params": {}})
            assert (await socket.receive_json(timeout=30))["error"]["code"] == -32601
        params = {"session_id": episode.other}
        await socket.send_json(
            {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params}
        )
        assert "error" in await socket.receive_json(timeout=30)


async def test_an_agents_client_cannot_train(episode: Episode) -> None:
    for url in (f"grpc://{episode.server.grpc_address}", episode.http):
        with pytest.raises(PermissionDeniedError):
            await GenericEnvClient(url, token=episode.agent).connect()


async def test_the_token_of_a_session_that_has_ended_trains_nowhere(episode: Episode) -> None:
    async with GenericEnvClient(
        f"grpc://{episode.server.grpc_address}", token=episode.trainer
    ) as third:
        token = (await third.agent_access()).token
    for url in (f"grpc://{episode.server.grpc_address}", episode.http):
        with pytest.raises(UnauthenticatedError):
            await GenericEnvClient(url, token=token).connect()
