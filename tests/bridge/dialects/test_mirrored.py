"""Arguments of tools that headers repeat, as their schemas declare."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from multidict import CIMultiDict

from openenv_bridge.mcp.mirrored import Parameter, declared, mirrored, mismatch
from openenv_grpc.engine import EnvironmentDefinition
from openenv_grpc.tools import CallToolAction, CallToolObservation, ToolInfo
from tests.bridge.conftest import Serve, Served
from tests.bridge.dialects.clients import BOTH, META, VERSION, Answered, Client, read
from tests.bridge.dialects.mirroring import Mirroring
from tests.environments import ToolSteps

MIRRORING = EnvironmentDefinition(
    factory=Mirroring,
    action_type=CallToolAction,
    observation_type=CallToolObservation,
    name="mirroring",
)


class Changing(Mirroring):
    """Its tools declare nothing any more once it was told to change."""

    _changed = False

    def list_tools(self) -> list[ToolInfo]:
        if self._changed:
            return [replace(each, input_schema={"type": "object"}) for each in super().list_tools()]
        return super().list_tools()

    def call_tool(self, name: str, *arguments: Any) -> Any:
        self._changed = self._changed or name == "plain"
        return super().call_tool(name, *arguments)


def encoded(text: str) -> str:
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


@pytest.fixture
async def served(serve: Serve) -> AsyncIterator[Served]:
    async with serve(MIRRORING) as served:
        yield served


async def call(
    served: Served, name: str, arguments: dict[str, Any], *more: tuple[str, str], **meta: str
) -> Answered:
    headers = CIMultiDict({"Accept": BOTH, "MCP-Protocol-Version": VERSION})
    headers.update({"Mcp-Method": "tools/call", "Mcp-Name": name})
    for header, value in more:
        headers.add(header, value)  # one may be there twice
    params = {"name": name, "arguments": arguments, "_meta": {**META, **meta}}
    body = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
    async with served.http.post(served.url + "/mcp", json=body, headers=headers) as response:
        return await read(response)


WEST = ("Mcp-Param-Region", "us-west1")


@pytest.mark.parametrize(
    ("arguments", "headers"),
    [
        ({"region": "us-west1"}, [WEST]),
        ({"region": "us-west1"}, [("mcp-param-REGION", "us-west1")]),
        ({"region": "us-west1"}, [("Mcp-Param-Region", encoded("us-west1"))]),
        ({"region": "世界"}, [("Mcp-Param-Region", encoded("世界"))]),
        ({"region": " padded "}, [("Mcp-Param-Region", encoded(" padded "))]),
        ({"region": "=?base64?eA=="}, [("Mcp-Param-Region", "=?base64?eA==")]),
        ({"region": "us-west1", "limit": None}, [WEST]),
        ({"region": "us-west1", "limit": 42}, [WEST, ("Mcp-Param-Limit", "42")]),
        ({"region": "us-west1", "limit": 42}, [WEST, ("Mcp-Param-Limit", "42.0")]),
        ({"region": "us-west1", "limit": -7}, [WEST, ("Mcp-Param-Limit", "-7")]),
        ({"region": "us-west1", "dry": True}, [WEST, ("Mcp-Param-Dry-Run", "true")]),
        ({"region": "us-west1", "dry": False}, [WEST, ("Mcp-Param-Dry-Run", "false")]),
        ({"region": "us-west1"}, [WEST, ("Mcp-Param-Unknown", "anything")]),
    ],
)
async def test_headers_that_repeat_the_arguments_let_a_call_through(
    served: Served, arguments: dict[str, Any], headers: list[tuple[str, str]]
) -> None:
    answered = await call(served, "query", arguments, *headers)
    assert answered.status == 200
    limit, dry = arguments.get("limit"), arguments.get("dry", False)
    expected = f"{arguments['region']} {limit} {dry}"
    assert answered.result["structuredContent"] == {"result": expected}


@pytest.mark.parametrize(
    ("arguments", "headers"),
    [
        ({"region": "us-west1"}, []),
        ({"region": "us-west1"}, [("Mcp-Param-Region", "us-east1")]),
        ({"region": "us-west1"}, [("Mcp-Param-Region", "US-WEST1")]),
        ({"region": "us-west1"}, [WEST, ("Mcp-Param-Region", "us-east1")]),
        ({"region": "Hello"}, [("Mcp-Param-Region", "=?base64?SGVsbG8?=")]),
        ({"region": "Hello"}, [("Mcp-Param-Region", "=?base64?SGVs!!!bG8=?=")]),
        ({"region": "世界"}, [("Mcp-Param-Region", "世界")]),
        ({"region": "us-west1", "limit": 42}, [WEST]),
        ({"region": "us-west1", "limit": 42}, [WEST, ("Mcp-Param-Limit", "43")]),
        ({"region": "us-west1", "limit": 42}, [WEST, ("Mcp-Param-Limit", "4_2")]),
        ({"region": "us-west1", "limit": 42}, [WEST, ("Mcp-Param-Limit", "many")]),
        ({"region": "us-west1"}, [WEST, ("Mcp-Param-Limit", "42")]),
        ({"region": "us-west1", "limit": None}, [WEST, ("Mcp-Param-Limit", "42")]),
        ({"region": "us-west1", "dry": True}, [WEST, ("Mcp-Param-Dry-Run", "True")]),
        ({"region": "us-west1", "dry": True}, [WEST, ("Mcp-Param-Dry-Run", "1")]),
    ],
)
async def test_headers_that_do_not_are_refused_and_nothing_is_called(
    served: Served, arguments: dict[str, Any], headers: list[tuple[str, str]]
) -> None:
    answered = await call(served, "query", arguments, *headers)
    assert (answered.status, answered.error["code"]) == (400, -32020)
    assert answered.content["id"] == 7
    assert "Mcp-Param-" in answered.error["message"]
    assert served.manager.sessions() == []


async def test_a_session_that_goes_on_is_asked_the_same(served: Served) -> None:
    begun = await call(served, "plain", {"text": "hi"})
    handle = begun.result["_meta"]["openenv-grpc/session"]
    meta = {"openenv-grpc/session": handle}
    refused = await call(served, "query", {"region": "us-west1"}, **meta)
    assert (refused.status, refused.error["code"]) == (400, -32020)
    answered = await call(served, "query", {"region": "us-west1"}, WEST, **meta)
    assert answered.status == 200
    assert len(served.manager.sessions()) == 1


async def test_what_tools_declare_by_now_counts(serve: Serve) -> None:
    async with serve(replace(MIRRORING, factory=Changing)) as served:
        begun = await call(served, "query", {"region": "us-west1"}, WEST)
        meta = {"openenv-grpc/session": begun.result["_meta"]["openenv-grpc/session"]}
        assert (await call(served, "query", {"region": "us-west1"}, **meta)).status == 400
        await call(served, "plain", {"text": "change"}, **meta)
        assert (await call(served, "query", {"region": "us-west1"}, **meta)).status == 200


async def test_tools_that_are_called_by_steps_are_not_listed_by_one_more(serve: Serve) -> None:
    steps = EnvironmentDefinition(
        factory=ToolSteps,
        action_type=CallToolAction,
        observation_type=CallToolObservation,
        name="steps",
    )
    async with serve(steps) as served:
        assert (await call(served, "say", {"region": "x"}, WEST)).status == 200
        [session] = served.manager.sessions()
        assert session.step_count == 1


async def test_a_call_that_began_with_initialize_repeats_nothing(served: Served) -> None:
    client = Client(served)
    await client.initialize()
    called = await client.call("tools/call", name="query", arguments={"region": "us-west1"})
    assert called.result["structuredContent"] == {"result": "us-west1 None False"}


async def test_what_may_not_be_declared_is_asked_of_nobody(served: Served) -> None:
    arguments = {"where": {"zone": "z"}, "share": 0.25, "name": "n", "one": "1", "other": "2"}
    answered = await call(served, "odd", arguments)
    assert answered.result["structuredContent"] == {"result": "z"}


async def test_the_tools_schema_tells_which_headers_there_are(served: Served) -> None:
    listed = await Client(served).ask("tools/list")
    schemas = {tool["name"]: tool["inputSchema"] for tool in listed.result["tools"]}
    assert schemas["query"]["properties"]["region"]["x-mcp-header"] == "Region"


def test_what_is_declared_is_reached_by_properties_alone() -> None:
    text = {"type": "string", "x-mcp-header": "Found"}
    schema: Any = {
        "properties": {
            "options": {"type": "object", "properties": {"inner": text}},
            "items": {"type": "array", "items": {**text, "x-mcp-header": "Item"}},
            "either": {"anyOf": [{**text, "x-mcp-header": "Either"}]},
            "nothing": {**text, "x-mcp-header": ""},
        },
        "allOf": [{"properties": {"other": {**text, "x-mcp-header": "Other"}}}],
    }
    assert declared(schema) == [Parameter("Found", ("options", "inner"))]
    assert declared(None) == declared({"properties": 5}) == []


@pytest.mark.parametrize(
    ("value", "text"),
    [("us-west1", "us-west1"), (42, "42"), (True, "true"), (" x", "=?base64?IHg=?=")],
)
def test_what_a_client_writes_is_what_a_server_reads(value: Any, text: str) -> None:
    parameters = [Parameter("A", ("options", "inner"))]
    arguments = {"options": {"inner": value}}
    headers = mirrored(parameters, arguments)
    assert headers == {"Mcp-Param-A": text}
    assert mismatch(parameters, arguments, CIMultiDict(headers)) == ""
    assert mirrored(parameters, {}) == mirrored(parameters, {"options": 5}) == {}
