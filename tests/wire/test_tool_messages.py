"""The codec of `ToolService`."""

from __future__ import annotations

from typing import Any

import pytest

from openenv_grpc.errors import InternalError, InvalidRequestError
from openenv_grpc.operations import Kind, Operation, ToolCall, ToolsListed
from openenv_grpc.tools import CallToolObservation, ToolAnswer, ToolInfo
from openenv_grpc.v1 import tool_pb2
from openenv_grpc.wire.tool_messages import ToolCodec
from tests.wire.test_operations import SPEC

CODEC = ToolCodec()


def operation(payload: Any = None) -> Operation:
    return Operation(kind=Kind.CALL_TOOL, codec=CODEC, payload=payload)


def answered(answer: ToolAnswer) -> tool_pb2.ToolResult:
    content = CODEC.write(operation(), answer, SPEC)
    return tool_pb2.CallToolResponse.FromString(content).result


def test_a_call_is_read_with_and_without_arguments() -> None:
    request = tool_pb2.CallToolRequest(tool_name="add")
    assert CODEC.read_tool_call(operation(request), SPEC) == ToolCall(name="add")
    request.arguments.json = '{"a":1}'
    assert CODEC.read_tool_call(operation(request), SPEC) == ToolCall(
        name="add", arguments={"a": 1}
    )


@pytest.mark.parametrize(
    "request_",
    [
        tool_pb2.CallToolRequest(),
        tool_pb2.CallToolRequest(tool_name="add", arguments={"json": "[1]"}),
        tool_pb2.CallToolRequest(tool_name="add", arguments={"json": "{"}),
        tool_pb2.CallToolRequest(tool_name="add", arguments={}),
    ],
    ids=["no_name", "array", "cut", "nothing"],
)
def test_a_call_that_is_malformed_is_refused(request_: tool_pb2.CallToolRequest) -> None:
    with pytest.raises(InvalidRequestError):
        CODEC.read_tool_call(operation(request_), SPEC)


def test_tools_are_listed_with_schemas_as_text() -> None:
    tools = [
        ToolInfo(name="a", title="A", description="d", output_schema={"type": "integer"}),
        ToolInfo(name="b"),
    ]
    content = CODEC.write(operation(), ToolsListed(tools=tools), SPEC)
    assert list(tool_pb2.ListToolsResponse.FromString(content).tools) == [
        tool_pb2.Tool(
            name="a",
            title="A",
            description="d",
            input_schema_json='{"type":"object"}',
            output_schema_json='{"type":"integer"}',
        ),
        tool_pb2.Tool(name="b", input_schema_json='{"type":"object"}'),
    ]


def test_content_keeps_its_kind_and_media_are_bytes() -> None:
    link = {"type": "resource_link", "uri": "file:x", "name": "x"}
    result = answered(
        ToolAnswer(
            content=[
                {"type": "text", "text": "hi"},
                {"type": "image", "data": "AAE=", "mimeType": "image/png"},
                {"type": "audio", "data": "AAE=", "mimeType": "audio/wav"},
                link,
            ],
            is_error=True,
        )
    )
    assert result.failed
    assert not result.HasField("structured")
    assert list(result.contents) == [
        tool_pb2.ToolContent(text="hi"),
        tool_pb2.ToolContent(image={"mime_type": "image/png", "data": b"\0\1"}),
        tool_pb2.ToolContent(audio={"mime_type": "audio/wav", "data": b"\0\1"}),
        tool_pb2.ToolContent(block_json='{"type":"resource_link","uri":"file:x","name":"x"}'),
    ]


def test_an_answer_without_content_is_a_result_all_the_same() -> None:
    content = CODEC.write(operation(), ToolAnswer(content=[]), SPEC)
    assert tool_pb2.CallToolResponse.FromString(content).WhichOneof("kind") == "result"
    assert answered(ToolAnswer(content=[], structured_content={"n": 1})).structured.json == (
        '{"n":1}'
    )


def test_a_step_in_disguise_tells_the_agent_no_reward() -> None:
    observation = CallToolObservation(tool_name="say", result=1, reward=0.5, done=True)
    result = answered(ToolAnswer(content=[], observation=observation))
    assert '"tool_name":"say"' in result.structured.json
    assert "reward" not in result.structured.json
    assert "done" not in result.structured.json


def test_an_agent_neither_resets_nor_steps() -> None:
    for call in (CODEC.read_reset, CODEC.read_step):
        with pytest.raises(InternalError):
            call(operation(), SPEC)
    with pytest.raises(InternalError):
        CODEC.write(operation(), {"observation": 1}, SPEC)
