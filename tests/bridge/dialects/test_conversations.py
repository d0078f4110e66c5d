"""Tools that ask clients of 2026-07-28: a call that goes on with the client's next request."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from openenv_bridge.mcp import conversations
from openenv_grpc.access import Access
from tests.bridge.conftest import Serve
from tests.bridge.dialects.clients import ALL_OFFERED, CURIOUS, Answered, Client

OFFERED = {"io.modelcontextprotocol/clientCapabilities": ALL_OFFERED}
ACCEPTED = {"action": "accept", "content": {"name": "Ada"}}
HANDLE_META = "openenv-grpc/session"


async def call(client: Client, name: str, **params: Any) -> Answered:
    params.setdefault("arguments", {})
    return await client.ask("tools/call", meta=OFFERED, name=name, **params)


async def go_on(client: Client, name: str, asked: Answered, /, **answers: Any) -> Answered:
    state = asked.result["requestState"]
    return await call(client, name, inputResponses=answers, requestState=state)


@pytest.mark.parametrize("name", ["greet", "greet_later"])
async def test_a_call_waits_where_it_asks_and_goes_on_once(serve: Serve, name: str) -> None:
    async with serve(CURIOUS) as served, asyncio.timeout(30):
        client = Client(served)
        asked = await call(client, name)
        assert asked.result["resultType"] == "input_required"
        request = asked.result["inputRequests"]["name"]
        assert request["method"] == "elicitation/create"
        ended = await go_on(client, name, asked, name=ACCEPTED)
        assert ended.result["resultType"] == "complete"
        assert ended.result["content"][0]["text"] == "hello Ada"
        handle = ended.result["_meta"][HANDLE_META]
        again = await go_on(client, name, asked, name=ACCEPTED)
        assert (again.status, again.error["code"]) == (400, -32602)
        meta = {**OFFERED, HANDLE_META: handle}
        counted = await client.ask("tools/call", meta=meta, name="count", arguments={})
        assert counted.result["structuredContent"] == {"result": 1}


async def test_each_round_has_a_name_of_its_own_and_answers_its_own_request(serve: Serve) -> None:
    async with serve(CURIOUS) as served, asyncio.timeout(30):
        client = Client(served)
        first = await call(client, "greet_twice")
        second = await go_on(client, "greet_twice", first, first=ACCEPTED)
        assert list(second.result["inputRequests"]) == ["second"]
        assert second.result["requestState"] != first.result["requestState"]
        body = {
            "jsonrpc": "2.0",
            "id": "third",
            "method": "tools/call",
            "params": {
                "name": "greet_twice",
                "arguments": {},
                "inputResponses": {"second": {"action": "cancel"}},
                "requestState": second.result["requestState"],
                "_meta": {
                    **OFFERED,
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                },
            },
        }
        headers = {"MCP_Protocol_Version": "2026-07-28", "Mcp_Method": "tools/call"}
        ended = await client.send(body, **headers, Mcp_Name="greet_twice")
        assert ended.content["id"] == "third"
        assert ended.result["content"][0]["text"] == "hello Ada cancel"


async def test_what_is_not_answered_is_asked_again_and_what_was_not_asked_is_ignored(
    serve: Serve,
) -> None:
    async with serve(CURIOUS) as served, asyncio.timeout(30):
        client = Client(served)
        asked = await call(client, "ask_all")
        assert set(asked.result["inputRequests"]) == {"elicitation", "sampling", "roots"}
        found = {"roots": [{"uri": "file:///work"}]}
        rest = await go_on(client, "ask_all", asked, roots=found, elicitation=ACCEPTED, other={})
        assert list(rest.result["inputRequests"]) == ["sampling"]
        said = {"role": "assistant", "content": {"type": "text", "text": "Hi"}, "model": "m"}
        ended = await go_on(client, "ask_all", rest, sampling=said)
        assert ended.result["content"][0]["text"] == "Hi, hello Ada: file:///work"


async def test_answers_that_come_with_a_call_are_taken_for_what_it_asks(serve: Serve) -> None:
    async with serve(CURIOUS) as served, asyncio.timeout(30):
        called = await call(Client(served), "greet", inputResponses={"name": ACCEPTED})
        assert called.result["content"][0]["text"] == "hello Ada"


@pytest.mark.parametrize("answers", [None, 5, {"name": 5}, {"name": {"action": "shrug"}}])
async def test_answers_that_are_none_are_refused_and_the_call_waits_on(
    serve: Serve, answers: Any
) -> None:
    async with serve(CURIOUS) as served, asyncio.timeout(30):
        client = Client(served)
        asked = await call(client, "greet")
        state = asked.result["requestState"]
        refused = await call(client, "greet", inputResponses=answers, requestState=state)
        assert (refused.status, refused.error["code"]) == (400, -32602)
        ended = await go_on(client, "greet", asked, name=ACCEPTED)
        assert ended.result["content"][0]["text"] == "hello Ada"


@pytest.mark.parametrize("wrong", ["state", "tool", "arguments", "session", "header"])
async def test_only_the_same_call_goes_on_with_the_state_that_it_was_given(
    serve: Serve, wrong: str
) -> None:
    async with serve(CURIOUS) as served, asyncio.timeout(30):
        client = Client(served)
        asked = await call(client, "greet")
        state = asked.result["requestState"] + ("x" if wrong == "state" else "")
        meta = {**OFFERED, HANDLE_META: "another"} if wrong == "session" else OFFERED
        other = Client(served)
        if wrong == "header":  # as of an argument, which has not changed
            other.headers["Mcp-Param-Region"] = "another"
        refused = await other.ask(
            "tools/call",
            meta=meta,
            name="greet_later" if wrong == "tool" else "greet",
            arguments={"a": 1} if wrong == "arguments" else {},
            inputResponses={"name": ACCEPTED},
            requestState=state,
        )
        assert (refused.status, refused.error["code"]) == (400, -32602)
        ended = await go_on(client, "greet", asked, name=ACCEPTED)
        assert ended.result["content"][0]["text"] == "hello Ada"


async def test_nobody_else_goes_on_with_an_agents_call(serve: Serve) -> None:
    access = Access(["trainer"])
    async with serve(CURIOUS, access=access) as served, asyncio.timeout(30):
        trainer = Client(served, token="trainer")
        begun = await call(trainer, "count")
        handle = begun.result["_meta"][HANDLE_META]
        session = served.manager.find(handle)
        agent = Client(served, token=access.grant(session).token)
        asked = await call(agent, "greet")
        meta = {**OFFERED, HANDLE_META: handle}
        foreign = await trainer.ask(
            "tools/call",
            meta=meta,
            name="greet",
            arguments={},
            inputResponses={"name": ACCEPTED},
            requestState=asked.result["requestState"],
        )
        assert foreign.error["code"] == -32602
        ended = await go_on(agent, "greet", asked, name=ACCEPTED)
        assert ended.result["content"][0]["text"] == "hello Ada"


async def test_a_capability_that_is_not_declared_is_an_error_that_names_it(serve: Serve) -> None:
    async with serve(CURIOUS) as served:
        client = Client(served)
        called = await client.ask("tools/call", name="greet", arguments={})
        assert (called.status, called.error["code"]) == (400, -32021)
        assert called.error["data"] == {"requiredCapabilities": {"elicitation": {}}}
        modest = await client.ask("tools/call", name="modest", arguments={})
        assert modest.result["content"][0]["text"] == "hello, whoever you are"


async def test_a_prompt_asks_in_an_environment_that_is_kept_for_it(serve: Serve) -> None:
    async with serve(CURIOUS) as served, asyncio.timeout(30):
        client = Client(served)
        asked = await client.ask("prompts/get", meta=OFFERED, name="letter")
        [key] = asked.result["inputRequests"]
        ended = await client.ask(
            "prompts/get",
            meta=OFFERED,
            name="letter",
            inputResponses={key: ACCEPTED},
            requestState=asked.result["requestState"],
        )
        assert ended.result["messages"][0]["content"]["text"] == "Dear Ada"


async def test_a_call_whose_tool_waits_no_longer_is_forgotten(serve: Serve) -> None:
    async with serve(CURIOUS) as served, asyncio.timeout(30):
        client = Client(served)
        asked = await call(client, "impatient")
        [session] = served.manager.sessions()
        while served.manager.find(session.session_id).info().idle_s is None:
            await asyncio.sleep(0.01)
        refused = await go_on(client, "impatient", asked, elicitation=ACCEPTED)
        assert (refused.status, refused.error["code"]) == (400, -32602)


async def test_of_too_many_calls_that_wait_the_oldest_is_cancelled(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversations, "MAX_SUSPENDED", 1)
    async with serve(CURIOUS) as served, asyncio.timeout(30):
        client = Client(served)
        first, second = await call(client, "greet"), await call(client, "greet")
        assert (await go_on(client, "greet", first, name=ACCEPTED)).status == 400
        ended = await go_on(client, "greet", second, name=ACCEPTED)
        assert ended.result["content"][0]["text"] == "hello Ada"


async def test_of_too_many_that_keep_an_environment_of_no_session_the_oldest_is_cancelled(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversations, "MAX_ALONE", 1)
    async with serve(CURIOUS) as served, asyncio.timeout(30):
        client = Client(served)
        called = await call(client, "greet")  # it has a session
        letters = [await client.ask("prompts/get", OFFERED, name="letter") for _ in range(2)]
        statuses = []
        for letter in letters:
            state = letter.result["requestState"]
            [key] = letter.result["inputRequests"]
            ended = await client.ask(
                "prompts/get",
                OFFERED,
                name="letter",
                inputResponses={key: ACCEPTED},
                requestState=state,
            )
            statuses.append(ended.status)
        assert statuses == [400, 200]
        assert (await go_on(client, "greet", called, name=ACCEPTED)).status == 200
