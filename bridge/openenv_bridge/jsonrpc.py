"""JSON-RPC as the reference's `/mcp` speaks it: requests read, responses written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import from_json

from openenv_bridge import errors
from openenv_bridge.ws_messages import RequestId, write_frame
from openenv_grpc.arrays import FOR_JSON
from openenv_grpc.environment_spec import EnvironmentSpec
from openenv_grpc.errors import InvalidRequestError, OpenEnvError, Reason, UnserializableResultError
from openenv_grpc.operations import (
    Closed,
    Opened,
    Operation,
    ResetArguments,
    Result,
    StepArguments,
    ToolCall,
    ToolsListed,
)
from openenv_grpc.serialization import dump_json, model_fields
from openenv_grpc.tools import ToolAnswer, ToolInfo
from openenv_grpc.types import EnvironmentMetadata, JsonValue

PARSE_ERROR = -32700
METHOD_NOT_FOUND = -32601


class JsonRpcRequest(BaseModel):
    """A request. One without an id is answered too, as in the reference."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    jsonrpc: Literal["2.0"]
    method: str
    params: dict[str, Any] = Field(default_factory=dict)
    id: str | int | None = None


@dataclass(frozen=True, slots=True)
class ReplyTo:
    """Where a response belongs."""

    id: RequestId = None
    in_frame: bool = False
    """Whether it travels in a `/ws` frame of type `mcp`."""
    request_id: RequestId = None
    """The id of that frame."""

    def result(self, value: JsonValue) -> bytes:
        """Writes a response."""
        return self._write({"jsonrpc": "2.0", "id": self.id, "result": value})

    def failure(self, code: int, message: str, *, facts: JsonValue = None) -> bytes:
        """Writes an error response."""
        error = {"code": code, "message": message, "data": facts}
        return self._write({"jsonrpc": "2.0", "id": self.id, "error": error})

    def error(self, error: OpenEnvError, spec: EnvironmentSpec | None) -> bytes:
        """Writes the error response for one of our errors."""
        code = errors.PROJECTIONS[error.reason].rpc_code
        if error.reason is Reason.NOT_SUPPORTED:
            return self.failure(code, "Environment does not support MCP")
        facts = errors.facts(error, spec) or None
        return self.failure(code, errors.message(error, spec), facts=facts)

    def _write(self, response: dict[str, JsonValue]) -> bytes:
        if self.in_frame:
            return write_frame("mcp", response, self.request_id)
        return dump_json(response)


@dataclass(frozen=True, slots=True)
class BadRequest:
    """What was received is no request; the answer says so."""

    answer: bytes


def read_request(body: str | bytes) -> tuple[JsonRpcRequest, ReplyTo] | BadRequest:
    """Reads a request from JSON text."""
    try:
        value: JsonValue = from_json(body)
    except ValueError:
        return BadRequest(ReplyTo().failure(PARSE_ERROR, "Parse error"))
    return check_request(value)


def check_request(
    value: JsonValue, *, in_frame: bool = False, request_id: RequestId = None
) -> tuple[JsonRpcRequest, ReplyTo] | BadRequest:
    """Reads a request from a parsed value."""
    if isinstance(value, list) and value:
        refusal = "Invalid request: batches are not supported; send one request at a time"
        return BadRequest(ReplyTo(None, in_frame, request_id).failure(-32600, refusal))
    if not isinstance(value, dict):
        return BadRequest(ReplyTo(None, in_frame, request_id).failure(PARSE_ERROR, "Parse error"))
    try:
        request = JsonRpcRequest.model_validate(value)
    except ValidationError as error:
        reply_to = ReplyTo(_id_of(value), in_frame, request_id)
        return BadRequest(reply_to.failure(errors.INVALID_REQUEST, f"Invalid request: {error}"))
    return request, ReplyTo(request.id, in_frame, request_id)


def _id_of(value: dict[str, JsonValue]) -> RequestId:
    """Reads the id of a request that is wrong otherwise."""
    found = value.get("id")
    return found if isinstance(found, str | int) and not isinstance(found, bool) else None


class JsonRpcCodec:
    """Reads and writes tool operations; `context` is where the response belongs."""

    def read_reset(self, operation: Operation, spec: EnvironmentSpec) -> ResetArguments:
        """Refuses: an agent does not reset."""
        raise InvalidRequestError("JSON-RPC has no reset")

    def read_step(self, operation: Operation, spec: EnvironmentSpec) -> StepArguments:
        """Refuses: an agent does not step."""
        raise InvalidRequestError("JSON-RPC has no step")

    def read_tool_call(self, operation: Operation, spec: EnvironmentSpec) -> ToolCall:
        """Takes `params` as the call."""
        arguments = operation.payload.get("arguments", {})
        if not isinstance(arguments, dict):
            raise InvalidRequestError("the arguments of a tool call have to be an object")
        return ToolCall(name=operation.payload["name"], arguments=arguments)

    def write(self, operation: Operation, result: Result, spec: EnvironmentSpec) -> bytes:
        """Writes the response."""
        reply_to: ReplyTo = operation.context
        match result:
            case ToolsListed():
                return reply_to.result({"tools": [_tool(tool, result) for tool in result.tools]})
            case ToolAnswer() if result.is_error and result.observation is None:
                return reply_to.failure(errors.INTERNAL_ERROR, result.text())
            case ToolAnswer():
                return reply_to.result(_answer(result))
            case Opened():
                return reply_to.result({"session_id": result.session_id})
            case Closed():
                return reply_to.result({"session_id": operation.payload, "closed": True})
            case EnvironmentMetadata():
                return b""
            case _:
                raise UnserializableResultError(f"JSON-RPC has no {operation.kind.value}")

    def write_error(
        self, operation: Operation, error: OpenEnvError, spec: EnvironmentSpec | None
    ) -> bytes:
        """Writes an error response."""
        reply_to: ReplyTo = operation.context
        if error.reason in (Reason.INVALID_REQUEST, Reason.INVALID_ACTION):
            # Whatever a tool call meets is an internal error in this dialect.
            return reply_to.failure(errors.INTERNAL_ERROR, errors.message(error, spec))
        return reply_to.error(error, spec)


def _tool(tool: ToolInfo, listed: ToolsListed) -> dict[str, JsonValue]:
    if listed.by_step:
        return {
            "name": tool.name,
            "description": tool.description,
            "input_schema": tool.input_schema,
        }
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": tool.input_schema,
        "outputSchema": tool.output_schema,
        "icons": tool.icons,
        "annotations": tool.annotations,
        "meta": tool.meta,
        "execution": tool.execution,
    }


def _answer(answer: ToolAnswer) -> dict[str, JsonValue]:
    if answer.observation is not None:
        return model_fields(answer.observation, context=FOR_JSON)
    return answer.as_result()


JSON_RPC_CODEC = JsonRpcCodec()
