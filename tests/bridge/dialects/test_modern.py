"""MCP of 2026-07-28: each request stands for itself."""

from __future__ import annotations

import asyncio
import base64
import json
from dataclasses import replace
from typing import Any

import aiohttp
import pytest

from openenv_grpc.types import ServerMode
from tests.bridge.conftest import Serve
from tests.bridge.dialects.clients import (
    ALL_OFFERED,
    BOTH,
    COUNTDOWN,
    LONELY,
    META,
    TOOLBOX,
    VERSION,
    Client,
    events_of,
)
from tests.bridge.dialects.test_legacy import LIBRARY
from tests.environments import AsyncSlow, Gates

HANDLE = "openenv_session"
HANDLE_META = "openenv-grpc/session"


async def test_discover_tells_what_there_is_without_a_session(serve: Serve) -> None:
    async with serve(COUNTDOWN) as served:
        found = await Client(served).ask("server/discover")
        assert found.status == 200
        assert found.result["resultType"] == "complete"
        assert found.result["supportedVersions"] == [VERSION]
        assert set(found.result["capabilities"]) >= {"tools", "resources", "prompts"}
        assert HANDLE in found.result["instructions"]
        assert "Mcp-Session-Id" not in found.headers
        assert served.manager.sessions() == []


async def test_lists_say_how_long_they_hold_and_keep_their_order(serve: Serve) -> None:
    async with serve(TOOLBOX) as served:
        client = Client(served)
        first, second = [await client.ask("tools/list") for _ in range(2)]
        assert first.result == second.result
        assert (first.result["ttlMs"], first.result["cacheScope"]) == (0, "private")
        assert [tool["name"] for tool in first.result["tools"]][:2] == ["add", "submit"]
        assert HANDLE in first.result["tools"][0]["inputSchema"]["properties"]
        assert served.manager.sessions() == []


async def test_a_call_begins_a_session_and_tells_its_name(serve: Serve) -> None:
    async with serve(COUNTDOWN) as served:
        client = Client(served)
        begun = await client.ask("tools/call", name="act", arguments={"by": 1})
        assert begun.result["structuredContent"]["left"] == 2
        handle = begun.result["_meta"][HANDLE_META]
        answer, told = begun.result["content"]
        assert json.loads(answer["text"])["left"] == 2
        assert handle in told["text"]
        assert '"left":3' in told["text"]


@pytest.mark.parametrize("by", ["argument", "meta"])
async def test_a_call_that_names_a_session_goes_on_in_it(serve: Serve, by: str) -> None:
    async with serve(COUNTDOWN) as served:
        client = Client(served)
        begun = await client.ask("tools/call", name="act", arguments={"by": 1})
        handle = begun.result["_meta"][HANDLE_META]
        arguments: dict[str, Any] = {"by": 1}
        if by == "argument":
            arguments[HANDLE] = handle
        meta = {HANDLE_META: handle} if by == "meta" else None
        called = await client.ask("tools/call", meta=meta, name="act", arguments=arguments)
        assert called.result["structuredContent"]["left"] == 1
        assert len(called.result["content"]) == 1
        assert "_meta" not in called.result
        assert len(served.manager.sessions()) == 1


async def test_clients_at_once_have_sessions_of_their_own(serve: Serve) -> None:
    async with serve(COUNTDOWN) as served:

        async def play(by: int) -> list[int]:
            client, arguments, left = Client(served), {"by": by}, []
            for _ in range(3):
                called = await client.ask("tools/call", name="act", arguments=arguments)
                left.append(called.result["structuredContent"]["left"])
                handle = called.result.get("_meta", {}).get(HANDLE_META)
                arguments = {**arguments, HANDLE: handle} if handle else arguments
            return left

        assert await asyncio.gather(*(play(by) for by in (1, 2, 3))) == [
            [2, 1, 0],
            [1, -1, -3],
            [0, -3, -6],
        ]


async def test_the_first_observation_can_be_read_before_any_call(serve: Serve) -> None:
    async with serve(COUNTDOWN) as served:
        client = Client(served)
        [listed] = (await client.ask("resources/list")).result["resources"]
        [content] = (await client.ask("resources/read", uri=listed["uri"])).result["contents"]
        assert json.loads(content["text"])["left"] == 3
        meta = {HANDLE_META: content["_meta"][HANDLE_META]}
        found = await client.ask("server/discover", meta=meta)
        assert '"left":3' in found.result["instructions"]
        [tool] = (await client.ask("tools/list", meta=meta)).result["tools"]
        assert HANDLE not in tool["inputSchema"]["properties"]
        assert len(served.manager.sessions()) == 1


async def test_a_session_that_is_unknown_is_told_to_the_model(serve: Serve) -> None:
    async with serve(COUNTDOWN) as served:
        client = Client(served)
        arguments = {"by": 1, HANDLE: "nope"}
        called = await client.ask("tools/call", name="act", arguments=arguments)
        assert called.result["isError"] is True
        assert "nope" in called.result["content"][0]["text"]
        named = await client.ask("tools/list", meta={HANDLE_META: "nope"})
        assert (named.status, named.error["code"]) == (404, -32001)


async def test_a_session_that_nobody_named_gives_way(serve: Serve) -> None:
    async with serve(LONELY) as served:
        client = Client(served)
        handles = []
        for _ in range(3):
            begun = await client.ask("tools/call", name="act", arguments={"by": 1})
            handles.append(begun.result["_meta"][HANDLE_META])
        [session] = served.manager.sessions()
        assert session.session_id == handles[-1]
        arguments = {"by": 1, HANDLE: handles[-1]}
        assert "result" in (await client.ask("tools/call", name="act", arguments=arguments)).content
        refused = await client.ask("tools/call", name="act", arguments={"by": 1})
        assert "at capacity" in refused.error["message"]


async def test_a_session_in_the_url_is_meant_by_every_call(serve: Serve) -> None:
    async with serve(COUNTDOWN) as served:
        session_id = (await served.rpc("openenv/session/create"))["result"]["session_id"]
        client = Client(served, f"/mcp?session_id={session_id}")
        for left in (-1, -2):
            called = await client.ask("tools/call", name="act", arguments={"by": 1})
            assert called.result["structuredContent"]["left"] == left
        assert len(served.manager.sessions()) == 1


@pytest.mark.parametrize(
    "method",
    ["initialize", "ping", "logging/setLevel", "resources/subscribe", "tasks/get", "nope"],
)
async def test_a_method_that_there_is_not_is_404(serve: Serve, method: str) -> None:
    async with serve(TOOLBOX) as served:
        answered = await Client(served).ask(method)
        assert (answered.status, answered.error["code"]) == (404, -32601)
        assert answered.content["id"] == 1


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("tools/call", {"name": "nope", "arguments": {}}, -32602),
        ("tools/call", {"name": "add", "arguments": 5}, -32602),
        ("resources/read", {"uri": "nowhere://"}, -32602),
        ("prompts/get", {"name": "nope"}, -32602),
    ],
)
async def test_parameters_that_do_not_fit_are_400(
    serve: Serve, method: str, params: dict[str, Any], code: int
) -> None:
    async with serve(TOOLBOX) as served:
        answered = await Client(served).ask(method, **params)
        assert (answered.status, answered.error["code"]) == (400, code)


async def test_what_a_tool_refuses_is_told_to_the_model(serve: Serve) -> None:
    async with serve(TOOLBOX) as served:
        for name, arguments in (("add", {"a": "x", "b": 1}), ("fail", {"reason": "no luck"})):
            called = await Client(served).ask("tools/call", name=name, arguments=arguments)
            assert (called.status, called.result["isError"]) == (200, True)


VALID = {"MCP-Protocol-Version": VERSION, "Mcp-Method": "tools/call", "Mcp-Name": "add"}


@pytest.mark.parametrize(
    ("headers", "meta", "code"),
    [
        ({"MCP-Protocol-Version": None}, META, -32020),
        ({"MCP-Protocol-Version": "2025-11-25"}, META, -32020),
        ({"Mcp-Method": None}, META, -32020),
        ({"Mcp-Method": "tools/list"}, META, -32020),
        ({"Mcp-Name": None}, META, -32020),
        ({"Mcp-Name": "submit"}, META, -32020),
        ({"Mcp-Name": "=?base64?###?="}, META, -32020),
        ({}, {**META, "io.modelcontextprotocol/protocolVersion": "2099-01-01"}, -32020),
        ({}, {"io.modelcontextprotocol/protocolVersion": VERSION}, -32602),
        ({}, {}, -32602),
        ({}, 5, -32602),
    ],
)
async def test_headers_and_body_have_to_agree(
    serve: Serve, headers: dict[str, str | None], meta: Any, code: int
) -> None:
    async with serve(TOOLBOX) as served:
        client = Client(served)
        sent = {**VALID, **headers}
        client.headers |= {name: value for name, value in sent.items() if value is not None}
        params = {"name": "add", "arguments": {"a": 1, "b": 2}, "_meta": meta}
        body = {"jsonrpc": "2.0", "id": "x", "method": "tools/call", "params": params}
        answered = await client.send(body)
        assert (answered.status, answered.error["code"]) == (400, code)
        assert answered.content["id"] == "x"


async def test_a_name_may_be_encoded(serve: Serve) -> None:
    async with serve(TOOLBOX) as served:
        client = Client(served)
        encoded = base64.b64encode(b"add").decode()
        client.headers |= {**VALID, "Mcp-Name": f"=?base64?{encoded}?="}
        params = {"name": "add", "arguments": {"a": 1, "b": 2}, "_meta": META}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        assert (await client.send(body)).result["structuredContent"] == {"result": 3}


async def test_a_version_of_the_future_is_told_which_are_spoken(serve: Serve) -> None:
    async with serve(TOOLBOX) as served:
        client = Client(served)
        meta = {**META, "io.modelcontextprotocol/protocolVersion": "2099-01-01"}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}
        answered = await client.send(
            body, MCP_Protocol_Version="2099-01-01", Mcp_Method="tools/list"
        )
        assert (answered.status, answered.error["code"]) == (400, -32022)
        assert answered.error["data"] == {"supported": [VERSION], "requested": "2099-01-01"}


@pytest.mark.parametrize("body", [[], 5, {"jsonrpc": "2.0"}])
async def test_what_is_no_message_is_400(serve: Serve, body: Any) -> None:
    async with serve(TOOLBOX) as served:
        answered = await Client(served).send(body, MCP_Protocol_Version=VERSION)
        assert (answered.status, answered.error["code"]) == (400, -32600)


async def test_a_notification_is_taken(serve: Serve) -> None:
    async with serve(TOOLBOX) as served:
        body = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
        answered = await Client(served).send(body, MCP_Protocol_Version=VERSION)
        assert (answered.status, answered.content) == (202, None)


async def test_tools_log_for_those_who_ask(serve: Serve) -> None:
    async with serve(LIBRARY) as served:
        client = Client(served)
        work = {"name": "work", "arguments": {"steps": 1}}
        assert (await client.ask("tools/call", **work)).notices == []
        level = {"io.modelcontextprotocol/logLevel": "info", "progressToken": 7}
        called = await client.ask("tools/call", meta=level, **work)
        assert [each["method"] for each in called.notices] == [
            "notifications/progress",
            "notifications/message",
        ]
        assert called.notices[0]["params"]["progressToken"] == 7


@pytest.mark.parametrize("offered", [{}, ALL_OFFERED], ids=["cannot be asked", "can be asked"])
async def test_a_client_that_goes_has_cancelled_its_call(
    serve: Serve, offered: dict[str, Any]
) -> None:
    gates = Gates()
    slow = replace(COUNTDOWN, factory=lambda: AsyncSlow(gates))
    async with serve(slow) as served:
        client = Client(served)
        begun = await client.ask("tools/call", name="act", arguments={})
        handle = {HANDLE: begun.result["_meta"][HANDLE_META]}
        waits = {"name": "act", "arguments": {"text": "wait", **handle}}
        meta = {"io.modelcontextprotocol/clientCapabilities": offered}
        running = asyncio.create_task(client.ask("tools/call", meta=meta, **waits))
        assert await asyncio.to_thread(gates.entered.wait, 10)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        called = await client.ask("tools/call", name="act", arguments=handle)
        assert called.result["structuredContent"]["left"] == 1


async def test_a_subscription_is_acknowledged_and_stays_open(serve: Serve) -> None:
    async with serve(TOOLBOX) as served:
        params = {"notifications": {"toolsListChanged": True}, "_meta": META}
        body = {"jsonrpc": "2.0", "id": 9, "method": "subscriptions/listen", "params": params}
        headers = {
            "Accept": BOTH,
            "MCP-Protocol-Version": VERSION,
            "Mcp-Method": "subscriptions/listen",
        }
        async with (
            aiohttp.ClientSession() as http,
            http.post(served.url + "/mcp", json=body, headers=headers) as response,
        ):
            async for event in events_of(response):
                assert event["method"] == "notifications/subscriptions/acknowledged"
                assert event["params"]["notifications"] == {}
                key = "io.modelcontextprotocol/subscriptionId"
                assert event["params"]["_meta"][key] == 9
                break


async def test_in_production_nobody_resets_and_tools_work(serve: Serve) -> None:
    async with serve(replace(TOOLBOX, mode=ServerMode.PRODUCTION)) as served:
        called = await Client(served).ask("tools/call", name="add", arguments={"a": 1, "b": 2})
        assert called.result["structuredContent"] == {"result": 3}


async def test_a_list_leaves_no_session(serve: Serve) -> None:
    async with serve(LIBRARY) as served:
        listed = await Client(served).ask("prompts/list")
        assert listed.result["prompts"][0]["name"] == "review"
        assert served.manager.sessions() == []
