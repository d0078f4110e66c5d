"""Who may reach which route and socket; whose host is meant, and whose page asks."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from openenv_bridge.binary_ws import SUBPROTOCOL
from openenv_bridge.jsonrpc import JSON_RPC_CODEC, ReplyTo
from openenv_grpc.access import Access, Area, Principal
from openenv_grpc.engine import EnvironmentDefinition
from openenv_grpc.errors import SessionClosedError
from openenv_grpc.operations import Kind, Operation
from openenv_grpc.sessions import SessionPort, ask
from openenv_grpc.tools import CallToolAction, CallToolObservation
from openenv_grpc.v1 import session_pb2
from tests.bridge.conftest import Serve, Served, talk
from tests.bridge.dialects.clients import Client as McpClient
from tests.bridge.gates import Gate
from tests.environments import Toolbox
from tests.stream.pipe import opening

TRAINER = "trainer-token-of-the-tests"
MCP_URL = "http://tools.example/mcp"
TOOLBOX = EnvironmentDefinition(
    factory=Toolbox,
    action_type=CallToolAction,
    observation_type=CallToolObservation,
    name="toolbox",
)

YES, DENIED, UNKNOWN = "yes", 403, 401
EPISODES = (YES, DENIED, UNKNOWN)
TOOLS = (YES, YES, UNKNOWN)
CATALOG = (YES, YES, UNKNOWN)
TASKS = (YES, DENIED, UNKNOWN)
ADMIN = (YES, DENIED, UNKNOWN)
HEALTH = (YES, YES, YES)

# What a trainer, an agent and anybody else meet.
ROUTES = {
    "POST /reset": EPISODES,
    "POST /step": EPISODES,
    "GET /state": EPISODES,
    "POST /toolbox/reset": EPISODES,
    "POST /toolbox/step": EPISODES,
    "GET /toolbox/state": EPISODES,
    "POST /nowhere/reset": EPISODES,
    "POST /mcp": TOOLS,
    "POST /mcp/": TOOLS,
    "POST /toolbox/mcp": TOOLS,
    "GET /mcp": TOOLS,
    "GET /": CATALOG,
    "GET /metadata": CATALOG,
    "GET /schema": CATALOG,
    "GET /toolbox/metadata": CATALOG,
    "GET /toolbox/schema": CATALOG,
    "GET /list_environments": CATALOG,
    "GET /openapi.json": CATALOG,
    "GET /docs": CATALOG,
    "GET /redoc": CATALOG,
    "GET /proto.binpb": CATALOG,
    "GET /metrics": ADMIN,
    "GET /toolbox/splits": TASKS,
    "POST /toolbox/tasks": TASKS,
    "POST /toolbox/num_tasks": TASKS,
    "POST /toolbox/task": TASKS,
    "POST /toolbox/task_range": TASKS,
    "GET /health": HEALTH,
    "GET /toolbox/health": HEALTH,
    # Of what is not there nobody is told but trainers: so it holds for what is to come, too.
    "GET /web": ADMIN,
    "GET /web/": ADMIN,
    "GET /web/metadata": CATALOG,
    "GET /web/state": ADMIN,
    "POST /web/reset": ADMIN,
    "POST /web/step": ADMIN,
    "GET /toolbox/web": ADMIN,
    "POST /toolbox/web/reset": ADMIN,
    "GET /nowhere/at/all": ADMIN,
    "GET /reset": ADMIN,
    "POST /state": ADMIN,
}
SOCKETS = {
    "/ws": EPISODES,
    "/toolbox/ws": EPISODES,
    "/ws?session_id=SESSION": EPISODES,
    "/mcp": TOOLS,
    "/toolbox/mcp": TOOLS,
}
WEB_SOCKETS = ("/ws/ui", "/web/ws", "/toolbox/ws/ui")
WHO = ("trainer", "agent", "wrong", "missing")


def cells(rows: dict[str, tuple[Any, ...]]) -> list[Any]:
    return [
        pytest.param(place, who, met, id=f"{place}-{who}")
        for place, (trainer, agent, anybody) in rows.items()
        for who, met in zip(WHO, (trainer, agent, anybody, anybody), strict=True)
    ]


@dataclass(frozen=True)
class Doors:
    """A bridge that asks for tokens, with an agent's session, and another's."""

    served: Served
    session: SessionPort
    other: SessionPort
    tokens: dict[str, str | None]

    def headers(self, who: str) -> dict[str, str]:
        token = self.tokens[who]
        return {} if token is None else {"Authorization": f"Bearer {token}"}

    async def rpc(self, who: str, method: str, **params: Any) -> tuple[int, Any]:
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        async with self.served.http.post(
            self.served.url + "/mcp", json=request, headers=self.headers(who)
        ) as response:
            return response.status, await response.json()


@asynccontextmanager
async def guarded(serve: Serve, **options: Any) -> AsyncIterator[Doors]:
    access = options.pop("access", None)
    access = access or Access([TRAINER], mcp_url=lambda environment: MCP_URL)
    async with serve(TOOLBOX, access=access, **options) as served:
        session, other = (served.manager.lease("", peer="test") for _ in range(2))
        tokens = {
            "trainer": TRAINER,
            "agent": access.grant(session).token,
            "wrong": TRAINER + "x",
            "missing": None,
        }
        async with asyncio.timeout(10):
            for each in (session, other):
                await listed(each)
        yield Doors(served, session, other, tokens)


async def listed(session: SessionPort) -> None:
    """Has a session built by asking for something."""
    await ask(
        session,
        Operation(kind=Kind.LIST_TOOLS, codec=JSON_RPC_CODEC, payload={}, context=ReplyTo()),
    )


@pytest.fixture
async def doors(serve: Serve) -> AsyncIterator[Doors]:
    async with guarded(serve) as doors:
        yield doors


@pytest.mark.parametrize(("route", "who", "met"), cells(ROUTES))
async def test_a_route_is_open_to_those_of_the_table(
    doors: Doors, route: str, who: str, met: str | int
) -> None:
    method, _, path = route.partition(" ")
    async with doors.served.http.request(
        method, doors.served.url + path, headers=doors.headers(who)
    ) as response:
        status = response.status
        if met == YES:
            assert status not in (401, 403)
            return
        assert status == met
        assert "detail" in await response.json()
        assert ("WWW-Authenticate" in response.headers) is (met == UNKNOWN)


@pytest.mark.parametrize("by", ["header", "subprotocol"])
@pytest.mark.parametrize(("path", "who", "met"), cells(SOCKETS))
async def test_a_socket_is_open_to_those_of_the_table(
    doors: Doors, path: str, who: str, met: str | int, by: str
) -> None:
    path = path.replace("SESSION", doors.session.id)
    token = doors.tokens[who]
    options: dict[str, Any] = {"headers": doors.headers(who)}
    if by == "subprotocol":
        bearer = [] if token is None else [f"openenv-grpc.bearer.{token}"]
        options = {"protocols": ["openenv-grpc.json", *bearer]}
    if met == YES:
        async with doors.served.ws(path, **options) as socket:
            assert socket.protocol == ("openenv-grpc.json" if by == "subprotocol" else None)
        return
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await doors.served.ws(path, **options)
    assert refused.value.status == met


@pytest.mark.parametrize("who", ["agent", "wrong", "missing"])
@pytest.mark.parametrize("path", WEB_SOCKETS)
async def test_a_socket_that_is_not_there_is_told_to_trainers_alone(
    doors: Doors, path: str, who: str
) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await doors.served.ws(path, headers=doors.headers(who))
    assert refused.value.status == (DENIED if who == "agent" else UNKNOWN)


async def test_with_agents_tokens_alone_a_route_is_open_to_those_of_the_table(
    serve: Serve,
) -> None:
    access = Access(agent_tokens=True)
    async with guarded(serve, access=access) as doors:
        doors.tokens["trainer"] = None
        for route, (_, agent, anybody) in ROUTES.items():
            method, _, path = route.partition(" ")
            trainer = UNKNOWN if ROUTES[route] is TOOLS else YES
            for who, met in {"trainer": trainer, "agent": agent, "wrong": anybody}.items():
                async with doors.served.http.request(
                    method, doors.served.url + path, headers=doors.headers(who)
                ) as response:
                    refused = response.status in (401, 403)
                    assert (response.status if refused else YES) == met, (route, who)


async def test_with_agents_tokens_alone_a_socket_is_open_to_those_of_the_table(
    serve: Serve,
) -> None:
    async with guarded(serve, access=Access(agent_tokens=True)) as doors:
        doors.tokens.update(trainer=None, empty="")
        for path, (_, agent, anybody) in SOCKETS.items():
            path = path.replace("SESSION", doors.session.id)
            trainer = UNKNOWN if path.endswith("/mcp") else YES
            rows = {"trainer": trainer, "agent": agent, "wrong": anybody, "empty": anybody}
            for who, met in rows.items():
                token = doors.tokens[who]
                bearer = [] if token is None else [f"openenv-grpc.bearer.{token}"]
                for options in (
                    {"headers": doors.headers(who)},
                    {"protocols": ["openenv-grpc.json", *bearer]},
                ):
                    status: str | int = YES
                    try:
                        async with doors.served.ws(path, **options):
                            pass
                    except aiohttp.WSServerHandshakeError as refused:
                        status = refused.status
                    assert status == met, (path, who)


@pytest.mark.parametrize("header", ["Bearer ", "Basic c2VjcmV0", "token"])
async def test_with_agents_tokens_alone_a_header_without_a_token_is_no_trainers(
    serve: Serve, header: str
) -> None:
    async with (
        guarded(serve, access=Access(agent_tokens=True)) as doors,
        doors.served.http.post(
            doors.served.url + "/reset", headers={"Authorization": header}
        ) as response,
    ):
        assert response.status == 401


class Watched(Access):
    """Tells that a request has been let in."""

    def __init__(self, trainer_tokens: tuple[str, ...]) -> None:
        super().__init__(trainer_tokens, agent_tokens=True)
        self.admitted = asyncio.Event()

    def admit(self, area: Area, token: str | None) -> Principal:
        self.admitted.set()
        return super().admit(area, token)


@pytest.mark.parametrize("dialect", ["openenv", "initialize", "2026-07-28"])
@pytest.mark.parametrize("by", ["a trainer's token", "none"])
async def test_an_agent_whose_session_ends_before_its_body_is_there_is_nobody(
    serve: Serve, dialect: str, by: str
) -> None:
    access = Watched((TRAINER,) if by != "none" else ())
    async with guarded(serve, access=access) as doors:
        params: dict[str, Any] = {"session_id": doors.other.id}
        sent = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params}
        headers, path = doors.headers("agent"), "/mcp"
        if dialect == "initialize":
            sent["method"] = "initialize"
            path = f"/mcp?session_id={doors.other.id}"
        elif dialect != "openenv":
            params["_meta"] = {"io.modelcontextprotocol/protocolVersion": dialect}
            headers |= {"MCP-Protocol-Version": dialect, "Mcp-Method": "tools/list"}
        ended = asyncio.Event()
        content = json.dumps(sent).encode()

        async def body() -> AsyncIterator[bytes]:
            yield content[:10]
            await ended.wait()
            yield content[10:]

        url = doors.served.url + path
        asked = asyncio.ensure_future(doors.served.http.post(url, data=body(), headers=headers))
        async with asyncio.timeout(30):
            await access.admitted.wait()
            doors.served.manager.end_session(doors.session.id, SessionClosedError("closed"))
            ended.set()
            async with await asked as response:
                assert response.status == 401


@pytest.mark.parametrize(("path", "who", "met"), cells({"/ws": EPISODES}))
async def test_binary_frames_are_open_to_those_of_the_table(
    doors: Doors, path: str, who: str, met: str | int
) -> None:
    protocols = [SUBPROTOCOL, f"openenv-grpc.bearer.{doors.tokens[who]}"]
    if met == YES:
        async with doors.served.ws(path, protocols=protocols) as socket:
            assert socket.protocol == SUBPROTOCOL
        return
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await doors.served.ws(path, protocols=protocols)
    assert refused.value.status == met


async def test_open_over_binary_frames_tells_what_the_agent_needs(doors: Doors) -> None:
    operation = opening()
    operation.open.agent_access = True
    request = session_pb2.ConnectRequest(operations=[operation])
    async with doors.served.ws(
        "/ws", protocols=[SUBPROTOCOL], headers=doors.headers("trainer")
    ) as socket:
        await socket.send_bytes(request.SerializeToString())
        answer = await socket.receive_bytes(timeout=10)
        opened = session_pb2.ConnectResponse.FromString(answer).outcomes[0].open
        doors.tokens["its agent"] = opened.agent_access.token
        status, tools = await doors.rpc("its agent", "tools/list")

    assert opened.agent_access.mcp_url == MCP_URL
    assert status == 200
    assert tools["result"]["tools"]


async def test_a_token_alone_among_the_subprotocols_is_answered_with_none(doors: Doors) -> None:
    protocols = [f"openenv-grpc.bearer.{TRAINER}"]
    async with doors.served.ws("/ws", protocols=protocols) as socket:
        assert socket.protocol is None
        assert (await talk(socket, type="reset"))["type"] == "observation"


async def test_an_agents_token_selects_its_session(doors: Doors) -> None:
    for params in ({}, {"session_id": doors.session.id}):
        status, answer = await doors.rpc("agent", "tools/list", **params)
        assert (status, "result" in answer) == (200, True)
    assert len(doors.served.manager.sessions()) == 2


async def test_an_agents_token_opens_no_other_session(doors: Doors) -> None:
    for session_id in (doors.other.id, "no-such-session"):
        status, answer = await doors.rpc("agent", "tools/list", session_id=session_id)
        assert status == 403
        assert "own session" in answer["detail"]


@pytest.mark.parametrize("method", ["openenv/session/create", "openenv/session/close"])
async def test_an_agent_opens_and_closes_no_session(doors: Doors, method: str) -> None:
    for params in ({}, {"session_id": doors.session.id}, {"session_id": doors.other.id}):
        status, _ = await doors.rpc("agent", method, **params)
        assert status == 403
    assert len(doors.served.manager.sessions()) == 2


async def test_an_agents_socket_is_in_its_session_and_leaves_it_open(doors: Doors) -> None:
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    async with doors.served.ws("/mcp", headers=doors.headers("agent")) as socket:
        assert "result" in await talk(socket, **request)
        for method, session_id in [
            ("openenv/session/create", ""),
            ("openenv/session/close", doors.session.id),
            ("openenv/session/close", doors.other.id),
            ("tools/list", doors.other.id),
        ]:
            params = {"session_id": session_id}
            assert "error" in await talk(socket, **{**request, "method": method, "params": params})
        assert "result" in await talk(socket, **request)
        assert len(doors.served.manager.sessions()) == 2

    assert (await doors.rpc("agent", "tools/list"))[0] == 200


async def test_an_agents_mcp_session_is_its_trainers_session(doors: Doors) -> None:
    agent = McpClient(doors.served, token=doors.tokens["agent"])
    begun = await agent.initialize()
    assert begun.status == 200
    called = await agent.call("tools/call", name="add", arguments={"a": 1, "b": 2})
    assert called.result["structuredContent"] == {"result": 3}
    modern = await agent.ask("tools/call", name="add", arguments={"a": 1, "b": 2})
    assert modern.result["structuredContent"] == {"result": 3}
    assert "_meta" not in modern.result or "openenv-grpc/session" not in modern.result["_meta"]
    assert len(doors.served.manager.sessions()) == 2
    assert (await agent.send(None, "DELETE")).status == 204
    assert len(doors.served.manager.sessions()) == 2


async def test_an_agent_reaches_no_other_mcp_session(doors: Doors) -> None:
    agent = McpClient(doors.served, token=doors.tokens["agent"])
    trainer = McpClient(doors.served, token=doors.tokens["trainer"])
    await trainer.initialize()
    agent.headers |= {"Mcp-Session-Id": trainer.headers["Mcp-Session-Id"]}
    assert (await agent.call("tools/list")).status == 404
    assert (await agent.send(None, "DELETE")).status == 404
    assert (await trainer.call("tools/list")).status == 200

    for named in (doors.other.id, "nope"):
        meta = {"openenv-grpc/session": named}
        assert (await agent.ask("tools/list", meta=meta)).status == 403
        agent.path = f"/mcp?session_id={named}"
        assert (await agent.ask("tools/list")).status == 403
        agent.path = "/mcp"
    # Named in an argument, another session is not meant: the token says which is.
    arguments = {"a": 1, "b": 2, "openenv_session": doors.other.id}
    await agent.ask("tools/call", name="add", arguments=arguments)
    assert doors.other.info().step_count == 0


@pytest.mark.parametrize("method", ["reset", "step", "state", "evaluate", "tools/reset"])
async def test_an_agent_does_by_mcp_nothing_that_is_its_trainers(doors: Doors, method: str) -> None:
    agent = McpClient(doors.served, token=doors.tokens["agent"])
    assert (await agent.ask(method)).error["code"] == -32601
    called = await agent.ask("tools/call", name=method, arguments={})
    assert called.error["code"] == -32602
    await agent.initialize()
    assert (await agent.call(method)).error["code"] == -32601
    called = await agent.call("tools/call", name=method, arguments={})
    assert called.error["code"] == -32602


@pytest.mark.parametrize("who", ["wrong", "missing"])
async def test_mcp_asks_for_a_token_in_every_dialect(doors: Doors, who: str) -> None:
    stranger = McpClient(doors.served, token=doors.tokens[who])
    for answered in (
        await stranger.call("initialize"),
        await stranger.ask("server/discover"),
        await stranger.send(None, "DELETE", Mcp_Session_Id="x"),
    ):
        assert answered.status == 401
        assert "WWW-Authenticate" in answered.headers


async def test_an_agents_mcp_session_ends_with_its_trainers(doors: Doors) -> None:
    agent = McpClient(doors.served, token=doors.tokens["agent"])
    await agent.initialize()
    await doors.rpc("trainer", "openenv/session/close", session_id=doors.session.id)
    assert (await agent.call("tools/list")).status == 401


async def test_an_agents_token_ends_with_its_session(doors: Doors) -> None:
    status, _ = await doors.rpc("trainer", "openenv/session/close", session_id=doors.session.id)
    assert status == 200

    assert (await doors.rpc("agent", "tools/list"))[0] == 401
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await doors.served.ws("/mcp", headers=doors.headers("agent"))
    assert refused.value.status == 401


async def test_a_trainer_may_use_every_sessions_tools(doors: Doors) -> None:
    for session in (doors.session, doors.other):
        status, answer = await doors.rpc("trainer", "tools/list", session_id=session.id)
        assert (status, "result" in answer) == (200, True)


async def test_a_token_is_in_no_answer_and_no_log(
    doors: Doors, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    told = []
    for who in ("agent", "wrong"):
        protocols = [f"openenv-grpc.bearer.{doors.tokens[who]}"]
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await doors.served.ws("/ws", protocols=protocols)
        told.append(str(refused.value))
        async with doors.served.http.get(
            doors.served.url + "/state", headers=doors.headers(who)
        ) as response:
            told.append(await response.text())
    async with doors.served.ws("/ws", protocols=[f"openenv-grpc.bearer.{TRAINER}"]) as socket:
        await talk(socket, type="reset")
    # What aiohttp's client logs of its own is not the server's.
    told += [record.getMessage() for record in caplog.records if "client" not in record.name]

    for token in filter(None, doors.tokens.values()):
        assert not [text for text in told if token in text]


# Whose host, whose page


@pytest.mark.parametrize("path", ["/health", "/schema", "/state", "/docs", "/nowhere"])
@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "localhost.evil.example"])
async def test_a_request_that_means_another_host_is_refused(
    serve: Serve, gate: Gate, path: str, host: str
) -> None:
    async with (
        serve(gate.definition()) as served,
        served.http.get(served.url + path, headers={"Host": host}) as response,
    ):
        assert response.status == (404 if path == "/nowhere" else 403)
    assert gate.built == 0


async def test_a_socket_that_means_another_host_is_refused(serve: Serve, gate: Gate) -> None:
    for path in ("/ws", "/mcp"):
        async with serve(gate.definition()) as served:
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                # As a page does that had its own name resolve to this machine.
                headers = {"Host": "evil.example", "Origin": "http://evil.example"}
                await served.ws(path, headers=headers)
            assert refused.value.status == 403


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:1", "[::1]:80", "10.1.2.3", "LOCALHOST"])
async def test_a_request_that_means_this_machine_is_not(
    serve: Serve, gate: Gate, host: str
) -> None:
    async with (
        serve(gate.definition()) as served,
        served.http.get(served.url + "/health", headers={"Host": host}) as response,
    ):
        assert response.status == 200


@pytest.mark.parametrize(
    ("allowed", "host", "status"),
    [
        (["lab.example"], "lab.example", 200),
        (["lab.example"], "Lab.Example:8443", 200),
        (["lab.example:8443"], "lab.example", 200),
        (["lab.example"], "localhost", 200),
        (["lab.example"], "evil.example", 403),
        (["*"], "evil.example", 200),
    ],
)
@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0"])
async def test_hosts_can_be_allowed(
    serve: Serve, gate: Gate, address: str, allowed: list[str], host: str, status: int
) -> None:
    async with (
        serve(gate.definition(), address=address, allowed_hosts=allowed) as served,
        served.http.get(served.url + "/health", headers={"Host": host}) as response,
    ):
        assert response.status == status


async def test_beyond_loopback_a_server_does_not_know_its_names(serve: Serve, gate: Gate) -> None:
    async with serve(gate.definition(), address="0.0.0.0") as served:
        for origin, status in [
            (None, 200),
            ("http://pod.example:3000", 200),
            ("http://evil.example", 403),
            ("null", 403),
        ]:
            headers = {"Host": "pod.example:8000"} | ({"Origin": origin} if origin else {})
            async with served.http.get(served.url + "/health", headers=headers) as response:
                assert response.status == status


@pytest.mark.parametrize(
    ("allowed", "origin", "status"),
    [
        (["https://lab.example"], "https://lab.example", 200),
        (["https://Lab.example/"], "https://lab.example", 200),
        (["https://lab.example"], "http://lab.example", 403),
        (["https://lab.example"], "https://lab.example:8443", 403),
        (["https://lab.example"], "http://localhost:3000", 200),
        (["*"], "https://evil.example", 200),
    ],
)
async def test_origins_can_be_allowed(
    serve: Serve, gate: Gate, allowed: list[str], origin: str, status: int
) -> None:
    async with (
        serve(gate.definition(), allowed_origins=allowed) as served,
        served.http.post(served.url + "/reset", headers={"Origin": origin}) as response,
    ):
        assert response.status == status
