"""Tools that ask clients of 2024-11-05 to 2025-11-25: by requests in the stream of a call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.bridge.conftest import Serve
from tests.bridge.dialects.clients import ALL_OFFERED, CURIOUS, Answered, Client, events_of

ACCEPTED = {"action": "accept", "content": {"name": "Ada"}}


@asynccontextmanager
async def calling(client: Client, name: str, call_id: int = 7) -> AsyncIterator[Any]:
    """Calls a tool; gives the iterator of what comes in the stream."""
    params = {"name": name, "arguments": {}}
    body = {"jsonrpc": "2.0", "id": call_id, "method": "tools/call", "params": params}
    url = client.served.url + client.path
    async with client.served.http.post(url, json=body, headers=client.headers) as response:
        assert response.content_type == "text/event-stream"
        yield events_of(response)


async def answer(client: Client, asked: Any, result: Any) -> Answered:
    return await client.send({"jsonrpc": "2.0", "id": asked["id"], "result": result})


async def begun(served: Any) -> Client:
    client = Client(served)
    await client.initialize(capabilities=ALL_OFFERED)
    return client


@pytest.mark.parametrize("name", ["greet", "greet_later"])
async def test_a_tool_asks_in_the_stream_and_goes_on_with_what_is_posted(
    serve: Serve, name: str
) -> None:
    async with serve(CURIOUS) as served, asyncio.timeout(30):
        client = await begun(served)
        async with calling(client, name) as events:
            asked = await anext(events)
            assert asked["method"] == "elicitation/create"
            assert asked["params"]["message"] == "Who are you?"
            assert asked["params"]["requestedSchema"]["required"] == ["name"]
            taken = await answer(client, asked, ACCEPTED)
            assert (taken.status, taken.content) == (202, None)
            told = await anext(events)
        assert told["id"] == 7
        assert told["result"]["content"][0]["text"] == "hello Ada"


async def test_what_the_user_declines_is_told_to_the_tool(serve: Serve) -> None:
    async with serve(CURIOUS) as served, asyncio.timeout(30):
        client = await begun(served)
        async with calling(client, "greet") as events:
            await answer(client, await anext(events), {"action": "decline"})
            assert (await anext(events))["result"]["content"][0]["text"] == "decline"


async def test_all_that_is_asked_at_once_goes_out_before_any_is_answered(serve: Serve) -> None:
    async with serve(CURIOUS) as served, asyncio.timeout(30):
        client = await begun(served)
        async with calling(client, "ask_all") as events:
            asked = [await anext(events) for _ in range(3)]
            methods = [each["method"] for each in asked]
            assert methods == ["elicitation/create", "sampling/createMessage", "roots/list"]
            said = {"role": "assistant", "content": {"type": "text", "text": "Hi"}, "model": "m"}
            results = [ACCEPTED, said, {"roots": [{"uri": "file:///work"}]}]
            for each, result in zip(asked, results, strict=True):
                assert (await answer(client, each, result)).status == 202
            text = (await anext(events))["result"]["content"][0]["text"]
        assert text == "Hi, hello Ada: file:///work"


@pytest.mark.parametrize(
    ("capabilities", "accept"),
    [
        ({}, "application/json, text/event-stream"),
        ({"sampling": {}}, "application/json, text/event-stream"),
        ({"elicitation": {"url": {}}}, "application/json, text/event-stream"),
        (ALL_OFFERED, "application/json"),
    ],
    ids=["nothing", "something else", "pages alone", "no stream to ask in"],
)
async def test_a_client_that_does_not_offer_it_is_told_so_by_the_tool(
    serve: Serve, capabilities: dict[str, Any], accept: str
) -> None:
    async with serve(CURIOUS) as served:
        client = Client(served)
        await client.initialize(capabilities=capabilities)
        client.headers["Accept"] = accept
        called = await client.call("tools/call", name="greet", arguments={})
        assert called.result["isError"]
        assert "elicitation, which that does not offer" in called.result["content"][0]["text"]
        modest = await client.call("tools/call", name="modest", arguments={})
        assert modest.result["content"][0]["text"] == "hello, whoever you are"


async def test_an_answer_of_another_session_or_to_nothing_is_refused(serve: Serve) -> None:
    async with serve(CURIOUS) as served, asyncio.timeout(30):
        client, other = await begun(served), await begun(served)
        async with calling(client, "greet") as events:
            asked = await anext(events)
            assert (await answer(other, asked, ACCEPTED)).status == 400
            refused = await answer(client, {"id": "made up"}, ACCEPTED)
            assert (refused.status, refused.error["code"]) == (400, -32600)
            assert (await answer(client, asked, ACCEPTED)).status == 202
            assert (await anext(events))["result"]["content"][0]["text"] == "hello Ada"
            assert (await answer(client, asked, ACCEPTED)).status == 400


async def test_an_answer_that_is_none_and_an_error_end_the_waiting(serve: Serve) -> None:
    async with serve(CURIOUS) as served, asyncio.timeout(30):
        client = await begun(served)
        async with calling(client, "modest") as events:
            refused = await answer(client, await anext(events), {"action": "shrug"})
            assert refused.error["code"] == -32602
            text = (await anext(events))["result"]["content"][0]["text"]
            assert "no result of elicitation/create" in text
        async with calling(client, "modest") as events:
            failed = {"code": -1, "message": "no user is there"}
            asked = await anext(events)
            await client.send({"jsonrpc": "2.0", "id": asked["id"], "error": failed})
            text = (await anext(events))["result"]["content"][0]["text"]
            assert "no user is there" in text


@pytest.mark.parametrize("end", ["cancelled", "stream lost"])
async def test_the_waiting_ends_with_the_call_and_the_session_stays(serve: Serve, end: str) -> None:
    async with serve(CURIOUS) as served, asyncio.timeout(30):
        client = await begun(served)
        async with calling(client, "greet") as events:
            asked = await anext(events)
            if end == "cancelled":
                body = {"method": "notifications/cancelled", "params": {"requestId": 7}}
                await client.send({"jsonrpc": "2.0", **body})
                assert "error" in await anext(events)
        counted = await client.call("tools/call", name="count", arguments={})
        assert counted.result["structuredContent"] == {"result": 1}
        assert (await answer(client, asked, ACCEPTED)).status == 400


async def test_a_client_that_never_answers_is_waited_for_as_long_as_the_tool_says(
    serve: Serve,
) -> None:
    async with serve(CURIOUS) as served, asyncio.timeout(30):
        client = await begun(served)
        called = await client.call("tools/call", name="impatient", arguments={})
        assert called.result["isError"]
        assert "did not answer" in called.result["content"][0]["text"]
        asked, withdrawn = called.notices
        assert withdrawn["method"] == "notifications/cancelled"
        assert withdrawn["params"]["requestId"] == asked["id"]
