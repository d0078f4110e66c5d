"""The codec of `ToolService`: tool calls read from protos, lists and answers written as protos."""

from __future__ import annotations

import base64

from openenv_grpc.environment_spec import EnvironmentSpec
from openenv_grpc.errors import InternalError, InvalidRequestError
from openenv_grpc.operations import Operation, Result, ToolCall, ToolsListed, WritingCodec
from openenv_grpc.serialization import BESIDE, dump_json, model_fields
from openenv_grpc.tools import ToolAnswer, ToolInfo, ToolLog, ToolNotice, ToolProgress
from openenv_grpc.types import JsonValue
from openenv_grpc.v1 import session_pb2, tool_pb2
from openenv_grpc.wire import payloads
from openenv_grpc.wire.durations import fill_duration


class ToolCodec(WritingCodec):
    """Reads `CallToolRequest`, writes `ListToolsResponse` and `CallToolResponse`."""

    def read_tool_call(self, operation: Operation, spec: EnvironmentSpec) -> ToolCall:
        """Reads a `CallToolRequest`."""
        return read_call(operation.payload)

    def write(self, operation: Operation, result: Result, spec: EnvironmentSpec) -> bytes:
        """Writes a list of tools, or the final message of a call."""
        match result:
            case ToolsListed():
                listed = tool_pb2.ListToolsResponse(tools=map(write_tool, result.tools))
                return listed.SerializeToString()
            case ToolAnswer():
                response = tool_pb2.CallToolResponse()
                fill_result(response.result, result)
                return response.SerializeToString()
            case _:
                raise InternalError(f"the tool service has no answer for {type(result).__name__}")


def write_notice(notice: ToolNotice, *, elapsed_s: float) -> bytes:
    """Writes a message of a call that is not its last."""
    response = tool_pb2.CallToolResponse()
    match notice:
        case ToolProgress():
            fill_progress(response.progress, notice)
            fill_duration(response.progress.elapsed_time, elapsed_s)
        case ToolLog():
            fill_log(response.log, notice)
    return response.SerializeToString()


def fill_progress(message: tool_pb2.ToolProgress, notice: ToolProgress) -> None:
    """Fills how far a tool is, but not since when."""
    message.progress = notice.progress
    if notice.total is not None:
        message.total = notice.total
    message.message = notice.message


def fill_log(message: tool_pb2.ToolLog, notice: ToolLog) -> None:
    """Fills what a tool logs."""
    message.level = notice.level
    message.logger = notice.logger
    payloads.encode_payload(message.data, notice.data)


def read_call(message: tool_pb2.CallToolRequest | session_pb2.CallTool) -> ToolCall:
    """Reads a call. Raises `InvalidRequestError`."""
    if not message.tool_name:
        raise InvalidRequestError("the call names no tool; set tool_name")
    if not message.HasField("arguments"):
        return ToolCall(name=message.tool_name)
    arguments = payloads.decode_object(message.arguments, what="arguments")
    return ToolCall(name=message.tool_name, arguments=arguments)


def write_tool(tool: ToolInfo) -> tool_pb2.Tool:
    """Describes a tool."""
    schema = tool.output_schema
    return tool_pb2.Tool(
        name=tool.name,
        title=tool.title or "",
        description=tool.description,
        input_schema_json=dump_json(tool.input_schema).decode(),
        output_schema_json="" if schema is None else dump_json(schema).decode(),
    )


def fill_result(message: tool_pb2.ToolResult, answer: ToolAnswer) -> None:
    """Fills what a tool answered, as its agent sees it."""
    message.SetInParent()
    message.failed = answer.is_error
    for block in answer.content:
        _fill_content(message.contents.add(), block)
    if answer.observation is not None:  # without the reward, which is not the agent's to know
        payloads.encode_payload(message.structured, model_fields(answer.observation, beside=BESIDE))
    elif answer.structured_content is not None:
        data = answer.structured_content if answer.data is None else answer.data
        payloads.encode_payload(message.structured, data)


def _fill_content(message: tool_pb2.ToolContent, block: dict[str, JsonValue]) -> None:
    match block:
        case {"type": "text", "text": str(text)}:
            message.text = text
        case {"type": "image", "data": str(data), "mimeType": str(mime_type)}:
            message.image.mime_type = mime_type
            message.image.data = base64.b64decode(data)
        case {"type": "audio", "data": str(data), "mimeType": str(mime_type)}:
            message.audio.mime_type = mime_type
            message.audio.data = base64.b64decode(data)
        case _:
            message.block_json = dump_json(block).decode()
