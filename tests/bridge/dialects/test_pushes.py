"""What clients are told between their calls: by `GET`, and by `subscriptions/listen`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import mcp
import mcp_types
import pytest
from mcp.client.subscriptions import ResourceUpdated, ToolsListChanged

from openenv_grpc.errors import SessionClosedError
from tests.bridge.conftest import Serve, Served
from tests.bridge.dialects.clients import BOTH, CURIOUS, META, VERSION, Client, events_of

CALLS = "curious://calls"
HANDLE_META = "openenv-grpc/session"
TOOLS = "notifications/tools/list_changed"
PROMPTS = "notifications/prompts/list_changed"
UPDATED = "notifications/resources/updated"

Listen = AbstractAsyncContextManager[AsyncIterator[Any]]


@asynccontextmanager
async def getting(client: Client) -> AsyncIterator[AsyncIterator[Any]]:
    """Opens the stream of a session; gives what comes in it."""
    headers = {**client.headers, "Accept": "text/event-stream"}
    url = client.served.url + client.path
    async with client.served.http.get(url, headers=headers) as response:
        assert (response.status, response.content_type) == (200, "text/event-stream")
        yield events_of(response)


@asynccontextmanager
async def listening(
    served: Served, handle: str = "", **notifications: Any
) -> AsyncIterator[AsyncIterator[Any]]:
    """Subscribes as clients of 2026-07-28 do; gives what comes in the stream."""
    meta = {**META, HANDLE_META: handle} if handle else META
    params = {"notifications": notifications, "_meta": meta}
    body = {"jsonrpc": "2.0", "id": 9, "method": "subscriptions/listen", "params": params}
    named = {"MCP-Protocol-Version": VERSION, "Mcp-Method": "subscriptions/listen"}
    headers = {"Accept": BOTH, **named}
    async with served.http.post(served.url + "/mcp", json=body, headers=headers) as response:
        yield events_of(response)


async def begun(served: Served) -> Client:
    client = Client(served)
    await client.initialize()
    return client


async def begun_by_call(served: Served) -> str:
    called = await Client(served).ask("tools/call", name="count", arguments={})
    handle: str = called.result["_meta"][HANDLE_META]
    return handle


async def learn(served: Served, handle: str) -> None:
    meta = {HANDLE_META: handle}
    await Client(served).ask("tools/call", meta=meta, name="learn", arguments={})


async def test_a_stream_tells_what_the_environment_says_of_itself(serve: Serve) -> None:
    async with serve(CURIOUS) as served, asyncio.timeout(30):
        client = await begun(served)
        async with getting(client) as events:
            await client.call("tools/call", name="learn", arguments={})
            assert [(await anext(events))["method"] for _ in range(2)] == [TOOLS, PROMPTS]
            await client.call("resources/subscribe", uri=CALLS)
            called = await client.call("tools/call", name="learn", arguments={})
            assert [each["method"] for each in called.notices] == [UPDATED]
            told = [await anext(events) for _ in range(3)]
        assert [each["method"] for each in told] == [TOOLS, PROMPTS, UPDATED]
        assert told[2]["params"] == {"uri": CALLS}


async def test_a_subscriber_is_told_of_what_others_do_in_its_session(serve: Serve) -> None:
    async with serve(CURIOUS) as served, asyncio.timeout(30):
        client = await begun(served)
        [session] = served.manager.sessions()
        other = Client(served, f"/mcp?session_id={session.session_id}")
        await other.initialize()
        await client.call("resources/subscribe", uri="any://thing")
        async with getting(client) as events:
            await other.call("tools/call", name="count", arguments={})
            told = await anext(events)
        assert (told["method"], told["params"]) == (UPDATED, {"uri": "any://thing"})


async def test_what_its_own_call_tells_is_not_told_twice(serve: Serve) -> None:
    async with serve(CURIOUS) as served, asyncio.timeout(30):
        client = await begun(served)
        await client.call("resources/subscribe", uri="any://thing")
        async with getting(client) as events:
            called = await client.call("tools/call", name="count", arguments={})
            assert [each["method"] for each in called.notices] == [UPDATED]
            await client.call("tools/call", name="learn", arguments={})
            assert (await anext(events))["method"] == TOOLS


@pytest.mark.parametrize("end", ["delete", "session", "another stream", "server"])
async def test_a_stream_ends_with_its_session_or_when_another_takes_its_place(
    serve: Serve, end: str
) -> None:
    async with asyncio.timeout(30), serve(CURIOUS) as served:
        client = await begun(served)
        async with getting(client) as events:
            if end == "delete":
                await client.send(None, "DELETE")
            elif end == "session":
                [session] = served.manager.sessions()
                served.manager.end_session(session.session_id, SessionClosedError("ended"))
            elif end == "server":
                await served.bridge.__aexit__(None, None, None)
            else:
                async with getting(client) as others:
                    assert [each async for each in events] == []
                    await client.call("tools/call", name="learn", arguments={})
                    assert (await anext(others))["method"] == TOOLS
            assert [each async for each in events] == []


async def test_a_stream_of_an_unknown_session_is_404(serve: Serve) -> None:
    async with serve(CURIOUS) as served:
        client = await begun(served)
        client.headers["Mcp-Session-Id"] = "unknown"
        answered = await client.send(None, "GET")
        assert (answered.status, answered.error["code"]) == (404, -32001)


async def test_who_listens_is_told_what_it_asked_for_and_no_more(serve: Serve) -> None:
    async with serve(CURIOUS) as served, asyncio.timeout(30):
        handle = await begun_by_call(served)
        wanted = {"toolsListChanged": True, "promptsListChanged": False}
        async with listening(served, handle, **wanted) as events:
            acknowledged = await anext(events)
            assert acknowledged["params"]["notifications"] == {"toolsListChanged": True}
            for _ in range(2):
                await learn(served, handle)
                told = await anext(events)
                assert told["method"] == TOOLS
                assert told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == 9


async def test_who_listens_to_a_resource_is_told_by_every_act_in_the_session(serve: Serve) -> None:
    async with serve(CURIOUS) as served, asyncio.timeout(30):
        handle = await begun_by_call(served)
        async with listening(served, handle, resourceSubscriptions=[CALLS]) as events:
            honored = (await anext(events))["params"]["notifications"]
            assert honored == {"resourceSubscriptions": [CALLS]}
            meta = {HANDLE_META: handle}
            await Client(served).ask("tools/call", meta=meta, name="count", arguments={})
            told = await anext(events)
        assert (told["method"], told["params"]["uri"]) == (UPDATED, CALLS)


async def test_the_end_of_a_session_ends_a_subscription_politely(serve: Serve) -> None:
    async with serve(CURIOUS) as served, asyncio.timeout(30):
        handle = await begun_by_call(served)
        async with listening(served, handle, toolsListChanged=True) as events:
            await anext(events)
            served.manager.end_session(handle, SessionClosedError("ended"))
            [ended] = [each async for each in events]
        assert ended["id"] == 9
        assert ended["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == 9


@pytest.mark.parametrize("notifications", [None, 5, {"resourceSubscriptions": "x"}])
async def test_a_subscription_to_what_is_none_is_refused(serve: Serve, notifications: Any) -> None:
    async with serve(CURIOUS) as served:
        meta = {HANDLE_META: await begun_by_call(served)}
        refused = await Client(served).ask(
            "subscriptions/listen", meta=meta, notifications=notifications
        )
        assert (refused.status, refused.error["code"]) == (400, -32602)


async def test_only_who_names_a_session_is_promised_to_be_told(serve: Serve) -> None:
    async with serve(CURIOUS) as served:
        handle = await begun_by_call(served)
        nothing = await Client(served).ask("server/discover")
        assert nothing.result["capabilities"]["tools"] == {}
        named = await Client(served).ask("server/discover", meta={HANDLE_META: handle})
        assert named.result["capabilities"]["tools"] == {"listChanged": True}
        assert named.result["capabilities"]["resources"]["subscribe"]


async def test_mcp2_hears_of_changes_by_its_subscription(serve: Serve) -> None:
    async with serve(CURIOUS) as served, asyncio.timeout(60):
        handle = await begun_by_call(served)
        async with (
            mcp.Client(f"{served.url}/mcp?session_id={handle}") as client,
            client.listen(tools_list_changed=True, resource_subscriptions=[CALLS]) as told,
        ):
            await client.call_tool("learn", {})
            heard = {type(await anext(told)) for _ in range(2)}
            assert heard == {ToolsListChanged, ResourceUpdated}
            assert "learned" in [tool.name for tool in (await client.list_tools()).tools]


async def test_mcp2_hears_of_changes_by_its_stream(serve: Serve) -> None:
    heard: asyncio.Queue[Any] = asyncio.Queue()

    async def take(message: Any) -> None:
        await heard.put(message)

    async with (
        serve(CURIOUS) as served,
        asyncio.timeout(60),
        mcp.Client(served.url + "/mcp", mode="legacy", message_handler=take) as client,
    ):
        while heard.empty():  # its stream may not be open yet
            await client.call_tool("learn", {})
        assert isinstance(await heard.get(), mcp_types.ToolListChangedNotification)
