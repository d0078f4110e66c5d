"""MCP of 2024-11-05 to 2025-11-25: sessions that begin with `initialize`."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from openenv_grpc.engine import EnvironmentDefinition
from openenv_grpc.errors import SessionClosedError
from openenv_grpc.tools import CallToolAction, CallToolObservation
from tests.bridge.conftest import Serve, no_sessions
from tests.bridge.dialects.clients import COUNTDOWN, LONELY, TOOLBOX, Client
from tests.bridge.gates import Gate
from tests.environments import Library, NotBuilt

LIBRARY = EnvironmentDefinition(
    factory=Library,
    action_type=CallToolAction,
    observation_type=CallToolObservation,
    name="library",
)


@pytest.mark.parametrize("path", ["/mcp", "/mcp/", "/countdown/mcp"])
async def test_initialize_begins_a_session_with_an_episode(serve: Serve, path: str) -> None:
    async with serve(COUNTDOWN) as served:
        client = Client(served, path)
        begun = await client.initialize()
        assert begun.status == 200
        assert begun.result["protocolVersion"] == "2025-11-25"
        assert begun.result["serverInfo"]["name"] == "countdown"
        assert '"left":3' in begun.result["instructions"]
        notified = await client.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert (notified.status, notified.content) == (202, None)
        [session] = served.manager.sessions()
        assert session.under_way
        assert session.peer == "127.0.0.1"


@pytest.mark.parametrize(
    ("asked", "spoken"),
    [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("1999-01-01", "2025-11-25"),
        (7, "2025-11-25"),
    ],
)
async def test_the_version_is_what_the_client_asks_for_or_the_latest(
    serve: Serve, asked: Any, spoken: str
) -> None:
    async with serve(TOOLBOX) as served:
        begun = await Client(served).initialize(asked)
        assert begun.result["protocolVersion"] == spoken


async def test_a_session_keeps_its_state_between_calls(serve: Serve) -> None:
    async with serve(COUNTDOWN) as served:
        client = Client(served)
        await client.initialize()
        left = []
        for _ in range(3):
            called = await client.call("tools/call", name="act", arguments={"by": 1})
            left.append(called.result["structuredContent"]["left"])
        assert left == [2, 1, 0]
        assert called.result["structuredContent"]["done"] is True
        assert json.loads(called.result["content"][0]["text"])["left"] == 0
        assert called.result["isError"] is False


async def test_clients_that_begin_at_once_have_sessions_of_their_own(serve: Serve) -> None:
    async with serve(COUNTDOWN) as served:
        clients = [Client(served) for _ in range(3)]
        await asyncio.gather(*(client.initialize() for client in clients))
        called = await asyncio.gather(
            *(
                client.call("tools/call", name="act", arguments={"by": by})
                for by, client in enumerate(clients, 1)
            )
        )
        assert [each.result["structuredContent"]["left"] for each in called] == [2, 1, 0]
        assert len({client.headers["Mcp-Session-Id"] for client in clients}) == 3


async def test_the_first_observation_is_a_resource(serve: Serve) -> None:
    async with serve(COUNTDOWN) as served:
        client = Client(served)
        await client.initialize()
        [listed] = (await client.call("resources/list")).result["resources"]
        read = await client.call("resources/read", uri=listed["uri"])
        [content] = read.result["contents"]
        assert content["mimeType"] == "application/json"
        assert json.loads(content["text"])["left"] == 3
        assert "reward" not in json.loads(content["text"])


async def test_tools_are_described_as_mcp_does(serve: Serve) -> None:
    async with serve(TOOLBOX) as served:
        client = Client(served)
        await client.initialize()
        tools = {tool["name"]: tool for tool in (await client.call("tools/list")).result["tools"]}
        assert list(tools) == ["add", "submit", "fail", "simulate"]
        assert tools["add"]["description"] == "Adds two numbers."
        assert set(tools["add"]["inputSchema"]["properties"]) == {"a", "b"}
        assert None not in tools["add"].values()


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("add", {"a": "one", "b": 2}, "a: Input should be a valid integer"),
        ("add", {"a": 1}, "b: "),
        ("fail", {"reason": "no luck"}, "no luck"),
    ],
)
async def test_what_a_tool_refuses_is_told_to_the_model(
    serve: Serve, name: str, arguments: dict[str, Any], told: str
) -> None:
    async with serve(TOOLBOX) as served:
        client = Client(served)
        await client.initialize()
        called = await client.call("tools/call", name=name, arguments=arguments)
        assert called.result["isError"] is True
        assert told in called.result["content"][0]["text"]
        again = await client.call("tools/call", name="add", arguments={"a": 1, "b": 2})
        assert again.result["content"][0]["text"] == "3"


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("tools/call", {"name": "nope", "arguments": {}}, -32602),
        ("tools/call", {"arguments": {}}, -32602),
        ("tools/call", {"name": "add", "arguments": [1]}, -32602),
        ("resources/read", {"uri": "nowhere://"}, -32002),
        ("resources/read", {}, -32602),
        ("prompts/get", {"name": "nope"}, -32602),
        ("logging/setLevel", {"level": "loud"}, -32602),
        ("completion/complete", {}, -32602),
        ("tools/destroy", {}, -32601),
        ("server/undiscover", {}, -32601),
    ],
)
async def test_what_is_no_business_of_the_model_is_a_json_rpc_error(
    serve: Serve, method: str, params: dict[str, Any], code: int
) -> None:
    async with serve(TOOLBOX) as served:
        client = Client(served)
        await client.initialize()
        answered = await client.call(method, **params)
        assert (answered.status, answered.error["code"]) == (200, code)
        assert answered.content["id"] == 1


async def test_ping_is_answered_with_a_session_and_without(serve: Serve) -> None:
    async with serve(TOOLBOX) as served:
        client = Client(served)
        assert (await client.call("ping")).result == {}
        await client.initialize()
        assert (await client.call("ping")).result == {}


async def test_a_session_that_is_unknown_is_404_in_json_rpc(serve: Serve) -> None:
    async with serve(TOOLBOX) as served:
        client = Client(served)
        client.headers["Mcp-Session-Id"] = "stale"
        answered = await client.call("tools/list")
        assert (answered.status, answered.error["code"]) == (404, -32001)
        body = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await client.send(body)).status == 404


async def test_initialize_with_a_stale_session_begins_afresh(serve: Serve) -> None:
    async with serve(TOOLBOX) as served:
        client = Client(served)
        client.headers["Mcp-Session-Id"] = "stale"
        begun = await client.call("initialize", protocolVersion="2025-11-25")
        assert begun.status == 200
        client.headers["Mcp-Session-Id"] = begun.headers["Mcp-Session-Id"]
        assert "result" in (await client.call("tools/list")).content


async def test_a_deleted_session_is_gone_and_its_environment_closed(
    serve: Serve, gate: Gate
) -> None:
    async with serve(gate.definition()) as served:
        client = Client(served)
        await client.initialize()
        assert (await client.send(None, "DELETE")).status == 204
        assert gate.closed.is_set()
        assert served.manager.sessions() == []
        assert (await client.call("tools/list")).status == 404
        assert (await client.send(None, "DELETE")).status == 404


async def test_a_session_that_an_operator_ends_is_404(serve: Serve) -> None:
    async with serve(TOOLBOX) as served:
        client = Client(served)
        await client.initialize()
        [session] = served.manager.sessions()
        served.manager.end_session(session.session_id, SessionClosedError("ended"))
        assert (await client.call("tools/list")).status == 404


async def test_get_without_a_session_is_405_since_there_is_nothing_to_push(serve: Serve) -> None:
    async with serve(TOOLBOX) as served:
        answered = await Client(served).send(None, "GET")
        assert answered.status == 405
        assert answered.headers["Allow"] == "DELETE,POST"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"MCP-Protocol-Version": "2025-06-18"}, 200),
        ({"MCP-Protocol-Version": "1999-01-01"}, 400),
        ({"Mcp-Session-Id": None}, 400),
        ({"Accept": "text/html"}, 400),
        ({"Accept": "application/json"}, 200),
        ({"Accept": "*/*"}, 200),
    ],
)
async def test_headers_are_checked(
    serve: Serve, headers: dict[str, str | None], status: int
) -> None:
    async with serve(TOOLBOX) as served:
        client = Client(served)
        await client.initialize()
        for name, value in headers.items():
            del client.headers[name]
            if value is not None:
                client.headers[name] = value
        answered = await client.call("tools/list")
        assert answered.status == status
        assert ("error" in answered.content) is (status == 400)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (5, -32600),
        ({"jsonrpc": "1.0", "id": 1, "method": "ping"}, -32600),
        ({"jsonrpc": "2.0", "id": True, "method": "ping"}, -32600),
        ({"jsonrpc": "2.0", "id": 1}, -32600),
        ([{"jsonrpc": "2.0", "id": 1, "method": "ping"}], -32600),
    ],
)
async def test_what_is_no_message_is_400(serve: Serve, body: Any, code: int) -> None:
    async with serve(TOOLBOX) as served:
        client = Client(served)
        await client.initialize()
        answered = await client.send(body)
        assert (answered.status, answered.error["code"]) == (400, code)


async def test_the_version_that_has_batches_has_them(serve: Serve) -> None:
    async with serve(TOOLBOX) as served:
        client = Client(served)
        await client.initialize("2025-03-26")
        add = {"name": "add", "arguments": {"a": 1, "b": 2}}
        answered = await client.send(
            [
                {"jsonrpc": "2.0", "id": "a", "method": "ping"},
                {"jsonrpc": "2.0", "method": "notifications/initialized"},
                {"jsonrpc": "2.0", "id": "b", "method": "tools/call", "params": add},
            ]
        )
        assert [each["id"] for each in answered.content] == ["a", "b"]
        assert answered.content[1]["result"]["structuredContent"] == {"result": 3}


async def test_a_tool_tells_of_itself_in_a_stream_of_events(serve: Serve) -> None:
    async with serve(LIBRARY) as served:
        client = Client(served)
        await client.initialize()
        called = await client.call(
            "tools/call", name="work", arguments={"steps": 2}, _meta={"progressToken": "t"}
        )
        assert called.headers["Content-Type"] == "text/event-stream"
        progress = [each["params"] for each in called.notices[:2]]
        assert [(each["progressToken"], each["progress"]) for each in progress] == [
            ("t", 1),
            ("t", 2),
        ]
        assert called.notices[2]["method"] == "notifications/message"
        assert called.notices[2]["params"]["level"] == "warning"
        assert called.result["content"][0]["text"].startswith("done")


async def test_who_wants_to_hear_nothing_gets_json(serve: Serve) -> None:
    async with serve(LIBRARY) as served:
        client = Client(served)
        await client.initialize()
        assert (await client.call("logging/setLevel", level="error")).result == {}
        called = await client.call("tools/call", name="work", arguments={"steps": 2})
        assert called.headers["Content-Type"] == "application/json"


async def test_who_takes_events_alone_gets_events(serve: Serve) -> None:
    async with serve(TOOLBOX) as served:
        client = Client(served)
        await client.initialize()
        client.headers["Accept"] = "text/event-stream"
        listed = await client.call("tools/list")
        assert listed.headers["Content-Type"] == "text/event-stream"
        assert listed.result["tools"]


async def test_a_call_tells_of_the_resources_that_a_client_subscribed_to(serve: Serve) -> None:
    async with serve(LIBRARY) as served:
        client = Client(served)
        await client.initialize()
        await client.call("logging/setLevel", level="error")
        await client.call("resources/subscribe", uri="library://catalogue")
        called = await client.call("tools/call", name="work", arguments={"steps": 1})
        [notice] = called.notices
        assert notice["method"] == "notifications/resources/updated"
        assert notice["params"] == {"uri": "library://catalogue"}
        await client.call("resources/unsubscribe", uri="library://catalogue")
        assert (await client.call("tools/call", name="work", arguments={"steps": 1})).notices == []


async def test_resources_and_prompts_are_those_of_the_environment(serve: Serve) -> None:
    async with serve(LIBRARY) as served:
        client = Client(served)
        await client.initialize()
        listed = (await client.call("resources/list")).result["resources"]
        assert [each["uri"] for each in listed] == [
            "openenv://observation",
            "library://catalogue",
        ]
        [template] = (await client.call("resources/templates/list")).result["resourceTemplates"]
        assert template["uriTemplate"] == "library://books/{title}"
        read = await client.call("resources/read", uri="library://books/emma")
        assert read.result["contents"][0]["text"] == "the text of emma"
        [prompt] = (await client.call("prompts/list")).result["prompts"]
        assert [each["required"] for each in prompt["arguments"]] == [True, False]
        got = await client.call("prompts/get", name="review", arguments={"title": "emma"})
        assert got.result["messages"][0]["content"]["text"] == "Review emma in 100 words."


async def test_a_cancelled_call_is_dropped(serve: Serve, gate: Gate) -> None:
    async with serve(gate.definition()) as served, asyncio.TaskGroup() as group:
        client = Client(served)
        await client.initialize()
        waits = {"name": "act", "arguments": {"wait": True}}
        running = group.create_task(client.call("tools/call", **waits))
        await asyncio.to_thread(gate.entered.wait, 10)
        body = {"jsonrpc": "2.0", "id": "queued", "method": "tools/list", "params": {}}
        call = {"name": "act", "arguments": {"text": "never"}}
        queued = group.create_task(client.send({**body, "method": "tools/call", "params": call}))
        cancel = {"method": "notifications/cancelled", "params": {"requestId": "queued"}}
        async with asyncio.timeout(10):
            while not queued.done():
                assert (await client.send({"jsonrpc": "2.0", **cancel})).status == 202
                await asyncio.sleep(0.01)
        assert "error" in queued.result().content
        gate.open.set()
        assert (await running).result["isError"] is False


async def test_a_client_that_goes_has_not_cancelled_its_call(serve: Serve, gate: Gate) -> None:
    async with serve(gate.definition()) as served:
        client = Client(served)
        await client.initialize()
        waits = {"name": "act", "arguments": {"wait": True, "text": "kept"}}
        running = asyncio.create_task(client.call("tools/call", **waits))
        await asyncio.to_thread(gate.entered.wait, 10)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        gate.open.set()
        called = await client.call("tools/call", name="act", arguments={"text": "next"})
        assert called.result["structuredContent"]["text"] == "next"
        [session] = served.manager.sessions()
        assert session.step_count == 2


async def test_an_environment_that_cannot_be_built_is_told(serve: Serve) -> None:
    broken = EnvironmentDefinition(
        factory=NotBuilt,
        action_type=COUNTDOWN.action_type,
        observation_type=COUNTDOWN.observation_type,
        name="broken",
    )
    async with serve(broken) as served:
        answered = await Client(served).call("initialize", protocolVersion="2025-11-25")
        assert answered.error["code"] == -32000
        assert "Mcp-Session-Id" not in answered.headers
        await no_sessions(served.manager)


async def test_a_server_without_room_says_so(serve: Serve) -> None:
    async with serve(LONELY) as served:
        await Client(served).initialize()
        answered = await Client(served).call("initialize", protocolVersion="2025-11-25")
        assert "at capacity" in answered.error["message"]


async def test_in_production_nobody_resets_and_tools_work(serve: Serve) -> None:
    from dataclasses import replace

    from openenv_grpc.types import ServerMode

    async with serve(replace(TOOLBOX, mode=ServerMode.PRODUCTION)) as served:
        client = Client(served)
        begun = await client.initialize()
        assert "observation" not in begun.result.get("instructions", "")
        assert (await client.call("resources/list")).result["resources"] == []
        called = await client.call("tools/call", name="add", arguments={"a": 1, "b": 2})
        assert called.result["structuredContent"] == {"result": 3}


async def test_a_session_in_the_url_is_joined_and_left_open(serve: Serve) -> None:
    async with serve(COUNTDOWN) as served:
        created = await served.rpc("openenv/session/create")
        session_id = created["result"]["session_id"]
        client = Client(served, f"/mcp?session_id={session_id}")
        await client.initialize()
        called = await client.call("tools/call", name="act", arguments={})
        assert "result" in called.content
        assert (await client.send(None, "DELETE")).status == 204
        [session] = served.manager.sessions()
        assert session.session_id == session_id
        missing = Client(served, "/mcp?session_id=nope")
        assert "error" in (await missing.call("initialize")).content
