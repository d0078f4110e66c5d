from __future__ import annotations

import json
from typing import Any

import pytest

from openenv_bridge.jsonrpc import JSON_RPC_CODEC, BadRequest, ReplyTo, read_request
from openenv_grpc.errors import (
    InvalidRequestError,
    NotSupportedError,
    SessionCapacityError,
    ToolNotFoundError,
)
from openenv_grpc.operations import Closed, Kind, Operation, ToolsListed
from openenv_grpc.tools import CallToolObservation, ToolAnswer, ToolInfo
from tests.bridge.test_ws_messages import SPEC


def refused(body: str) -> dict[str, Any]:
    read = read_request(body)
    assert isinstance(read, BadRequest)
    answer: dict[str, Any] = json.loads(read.answer)
    return answer


def written(result: object, payload: object = None) -> dict[str, Any]:
    operation = Operation(
        kind=Kind.CALL_TOOL, codec=JSON_RPC_CODEC, payload=payload, context=ReplyTo(1)
    )
    answer: dict[str, Any] = json.loads(JSON_RPC_CODEC.write(operation, result, SPEC))
    assert answer["jsonrpc"] == "2.0"
    assert answer["id"] == 1
    return answer


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("{bad", -32700),
        ("", -32700),
        ("42", -32700),
        ("[]", -32700),
        ("[" * 10_000, -32700),
        ('[{"jsonrpc":"2.0","id":1,"method":"tools/list"}]', -32600),
        ('{"jsonrpc":"1.0","method":"tools/list"}', -32600),
        ('{"jsonrpc":"2.0"}', -32600),
        ('{"jsonrpc":"2.0","method":"tools/list","params":[]}', -32600),
        ('{"jsonrpc":"2.0","method":"tools/list","id":1.5}', -32600),
    ],
)
def test_what_is_no_request_is_answered_with_its_code(body: str, code: int) -> None:
    assert refused(body)["error"]["code"] == code


def test_a_refused_request_gets_its_id_back() -> None:
    assert refused('{"jsonrpc":"2.0","id":"x","method":5}')["id"] == "x"


def test_a_refusal_names_what_is_wrong() -> None:
    answer = refused('{"jsonrpc":"2.0","id":9,"method":"tools/list","params":[]}')
    text = "Invalid request: 1 validation error for JsonRpcRequest\nparams\n"
    assert answer["error"]["message"].startswith(text)


def test_a_response_travels_in_a_frame_where_the_request_did() -> None:
    assert json.loads(ReplyTo(1, in_frame=True, request_id="r").result({})) == {
        "type": "mcp",
        "data": {"jsonrpc": "2.0", "id": 1, "result": {}},
        "request_id": "r",
    }


def test_tools_are_listed_as_mcp_has_them() -> None:
    tools = written(ToolsListed(tools=[ToolInfo(name="add")]))["result"]["tools"]
    assert tools == [
        {
            "name": "add",
            "title": None,
            "description": "",
            "inputSchema": {"type": "object"},
            "outputSchema": None,
            "icons": None,
            "annotations": None,
            "meta": None,
            "execution": None,
        }
    ]


def test_tools_listed_by_a_step_are_written_as_the_reference_does() -> None:
    listed = ToolsListed(tools=[ToolInfo(name="say", description="Say it.")], by_step=True)
    assert written(listed)["result"]["tools"] == [
        {"name": "say", "description": "Say it.", "input_schema": {"type": "object"}}
    ]


def test_an_answer_has_the_references_keys() -> None:
    answer = ToolAnswer(
        content=[{"type": "text", "text": "3"}], structured_content={"result": 3}, data=3
    )
    assert written(answer)["result"] == {
        "content": [{"type": "text", "text": "3", "annotations": None, "meta": None}],
        "structured_content": {"result": 3},
        "meta": None,
        "data": 3,
        "is_error": False,
    }


def test_an_answer_by_a_step_is_the_whole_observation() -> None:
    observation = CallToolObservation(tool_name="say", result="v", reward=0.25)
    assert written(ToolAnswer(content=[], observation=observation))["result"] == {
        "done": False,
        "reward": 0.25,
        "metadata": {},
        "tool_name": "say",
        "result": "v",
        "error": None,
    }


def test_a_tool_that_failed_is_an_error() -> None:
    answer = ToolAnswer(content=[{"type": "text", "text": "boom"}], is_error=True)
    assert written(answer)["error"] == {"code": -32603, "message": "boom", "data": None}


def test_a_closed_session_is_named() -> None:
    assert written(Closed(step_count=0), payload="s1")["result"] == {
        "session_id": "s1",
        "closed": True,
    }


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            ToolNotFoundError("Unknown tool: 'x'"),
            {"code": -32603, "message": "Unknown tool: 'x'", "data": None},
        ),
        (
            NotSupportedError("it has no tools"),
            {"code": -32603, "message": "Environment does not support MCP", "data": None},
        ),
        (
            InvalidRequestError("arguments"),
            {"code": -32603, "message": "arguments", "data": None},
        ),
        (
            SessionCapacityError("full", metadata={"active_sessions": "1", "max_sessions": "1"}),
            {
                "code": -32000,
                "message": (
                    "Server at capacity: 1/1 sessions active. Cannot accept new connections."
                ),
                "data": {"active_sessions": 1, "max_sessions": 1},
            },
        ),
    ],
    ids=["unknown tool", "no tools", "bad arguments", "full"],
)
def test_an_error_is_written_in_the_references_dialect(error: Any, expected: object) -> None:
    operation = Operation(kind=Kind.CALL_TOOL, codec=JSON_RPC_CODEC, context=ReplyTo("a"))
    answer = json.loads(JSON_RPC_CODEC.write_error(operation, error, SPEC))
    assert answer == {"jsonrpc": "2.0", "id": "a", "error": expected}


def test_arguments_that_are_no_object_are_refused() -> None:
    operation = Operation(
        kind=Kind.CALL_TOOL, codec=JSON_RPC_CODEC, payload={"name": "add", "arguments": [1]}
    )
    with pytest.raises(InvalidRequestError):
        JSON_RPC_CODEC.read_tool_call(operation, SPEC)
