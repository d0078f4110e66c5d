"""Tools and their answers as a stream brings them."""

from __future__ import annotations

import base64

from openenv_grpc.client import tool_answers
from openenv_grpc.serialization import parse_json
from openenv_grpc.tools import Tool
from openenv_grpc.types import JsonValue
from openenv_grpc.v1 import session_pb2, tool_pb2
from openenv_grpc.wire import payloads


def listed(result: session_pb2.ListToolsResult) -> list[Tool]:
    """Returns a session's tools."""
    return [
        Tool(
            name=tool.name,
            description=tool.description,
            input_schema=parse_json(tool.input_schema_json or "{}", what="tool's schema"),
        )
        for tool in result.tools
    ]


def called(name: str, result: tool_pb2.ToolResult) -> JsonValue:
    """Returns what a tool answered: its data, or where there is none its content, if any.

    Raises:
        EnvironmentFailedError: the tool says that it failed.
    """
    data = payloads.decode_payload(result.structured) if result.HasField("structured") else None
    if isinstance(data, dict) and "tool_name" in data:
        return tool_answers.read_call(name, data)  # a step in disguise
    return tool_answers.read_result(
        name,
        {
            "content": [read_block(content) for content in result.contents],
            "structured_content": _wrapped(data),
            "meta": None,
            "data": data,
            "is_error": result.failed,
        },
    )


def _wrapped(data: JsonValue) -> JsonValue:
    """Returns a tool's value as MCP structures it: in an object, where it is none."""
    return data if data is None or isinstance(data, dict) else {"result": data}


def read_block(content: tool_pb2.ToolContent) -> JsonValue:
    """Returns a piece of a tool's answer as MCP writes it."""
    match content.WhichOneof("kind"):
        case "text":
            return {"type": "text", "text": content.text, "annotations": None, "meta": None}
        case "image":
            return _media("image", content.image)
        case "audio":
            return _media("audio", content.audio)
        case _:
            return parse_json(content.block_json or "{}", what="tool's answer")


def _media(kind: str, content: tool_pb2.MediaContent) -> JsonValue:
    return {
        "type": kind,
        "data": base64.b64encode(content.data).decode("ascii"),
        "mimeType": content.mime_type,
        "annotations": None,
        "meta": None,
    }
