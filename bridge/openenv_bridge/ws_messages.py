"""Frames of the reference's `/ws` protocol: read from JSON, and written as JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, ValidationError
from pydantic_core import from_json

from openenv_bridge import errors
from openenv_grpc.arrays import FOR_JSON
from openenv_grpc.environment_spec import EnvironmentSpec
from openenv_grpc.errors import InvalidRequestError, OpenEnvError, UnserializableResultError
from openenv_grpc.operations import (
    Closed,
    Observed,
    Opened,
    Operation,
    ResetArguments,
    Result,
    StateRead,
    StepArguments,
    ToolCall,
)
from openenv_grpc.serialization import BESIDE, dump_json, error_details, model_fields
from openenv_grpc.types import JsonValue

MAX_FRAME_BYTES = 16 * 2**20
"""Of a JSON frame; a larger one ends the socket with 1009, as in the reference."""

RequestId = str | int | None


class _Frame(BaseModel):
    """What every frame has."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    request_id: StrictStr | StrictInt | None = None
    """Comes back with the answer. An addition of ours, as is `timeout_s`."""
    timeout_s: float | None = Field(default=None, gt=0)
    traceparent: str = ""
    """The span that the operation's own is below; empty for that of the handshake, if it has one.
    An addition as well."""


class ResetFrame(_Frame):
    """Starts an episode."""

    type: Literal["reset"]
    data: dict[str, Any] = Field(default_factory=dict)


class StepFrame(_Frame):
    """Applies an action."""

    type: Literal["step"]
    data: dict[str, Any]


class StateFrame(_Frame):
    """Asks for the state. It has no `data`."""

    type: Literal["state"]


class CloseFrame(_Frame):
    """Ends the session. It has no `data`."""

    type: Literal["close"]


class McpFrame(_Frame):
    """Carries a JSON-RPC request."""

    type: Literal["mcp"]
    data: dict[str, Any]


Frame = ResetFrame | StepFrame | StateFrame | CloseFrame | McpFrame

FRAMES: dict[str, type[Frame]] = {
    "reset": ResetFrame,
    "step": StepFrame,
    "state": StateFrame,
    "close": CloseFrame,
    "mcp": McpFrame,
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """A frame that is answered at once: it is none of the five, or malformed."""

    answer: bytes


def read_frame(text: str) -> Frame | Refusal:
    """Reads a text frame."""
    try:
        value: JsonValue = from_json(text)
    except ValueError as error:
        return Refusal(error_frame(f"Invalid JSON: {error}", "INVALID_JSON"))
    if not isinstance(value, dict):
        return Refusal(
            error_frame("Invalid message", errors.VALIDATION_ERROR, errors=[_not_an_object(value)])
        )
    named = value.get("type", "")
    model = FRAMES.get(named) if isinstance(named, str) else None
    if model is None:
        return Refusal(
            error_frame(f"Unknown message type: {named}", "UNKNOWN_TYPE", request_id=_id_of(value))
        )
    try:
        return model.model_validate(value)
    except ValidationError as error:
        return Refusal(
            error_frame(
                "Invalid message",
                errors.VALIDATION_ERROR,
                request_id=_id_of(value),
                errors=error_details(error),
            )
        )


def refuse_binary() -> Refusal:
    """Answers a binary frame."""
    return Refusal(error_frame("Invalid JSON: send text frames, not binary ones", "INVALID_JSON"))


def _id_of(value: dict[str, JsonValue]) -> RequestId:
    """Reads the id of a frame that is wrong otherwise."""
    found = value.get("request_id")
    return found if isinstance(found, str | int) and not isinstance(found, bool) else None


def _not_an_object(value: JsonValue) -> dict[str, JsonValue]:
    return {
        "type": "dict_type",
        "loc": [],
        "msg": "Input should be a valid dictionary",
        "input": value,
    }


def write_frame(kind: str, content: JsonValue, request_id: RequestId = None) -> bytes:
    """Writes a frame."""
    frame = {"type": kind, "data": content}
    if request_id is not None:
        frame["request_id"] = request_id
    return dump_json(frame)


def error_frame(
    message: str, code: str, *, request_id: RequestId = None, **facts: JsonValue
) -> bytes:
    """Writes an error frame."""
    return write_frame("error", {"message": message, "code": code, **facts}, request_id)


def error_frame_for(
    error: OpenEnvError, spec: EnvironmentSpec | None, request_id: RequestId = None
) -> bytes:
    """Writes the error frame for one of our errors."""
    code = errors.ws_code(error)
    if code == errors.VALIDATION_ERROR:
        return error_frame(
            "Invalid message", code, request_id=request_id, errors=errors.details(error)
        )
    facts = errors.facts(error, spec)
    return error_frame(errors.message(error, spec), code, request_id=request_id, **facts)


@dataclass(frozen=True, slots=True)
class SessionKey:
    """What a session is to be taken up by, told to the socket that opens it."""

    text: str = field(repr=False)


def session_frame(session_id: str, **facts: JsonValue) -> bytes:
    """Writes the frame that tells a socket what its session is called."""
    return write_frame("session", {"session_id": session_id, **facts})


def observation_fields(result: Observed) -> dict[str, JsonValue]:
    """Returns the `data` of an observation frame."""
    fields = model_fields(result.observation, beside=BESIDE, context=FOR_JSON)
    content: dict[str, JsonValue] = {
        "observation": fields,
        "reward": result.reward,
        "done": result.done,
    }
    metadata = fields.get("metadata")
    if metadata:
        content["metadata"] = metadata
    if result.truncated:
        content["truncated"] = True
    return content


def state_fields(state: Any) -> dict[str, JsonValue]:
    """Returns the fields of a state, whatever an environment takes for one."""
    match state:
        case None:
            return {}
        case dict():
            return state
        case _:
            return model_fields(state, context=FOR_JSON)


class JsonCodec:
    """Reads and writes the operations of a `/ws` socket; `context` is the frame's request id."""

    def read_reset(self, operation: Operation, spec: EnvironmentSpec) -> ResetArguments:
        """Takes `data` as the keywords."""
        return ResetArguments(keywords=operation.payload)

    def read_step(self, operation: Operation, spec: EnvironmentSpec) -> StepArguments:
        """Takes `data` as the action."""
        return StepArguments(action=spec.action_reader.from_value(operation.payload))

    def read_tool_call(self, operation: Operation, spec: EnvironmentSpec) -> ToolCall:
        """Refuses: tools are called in `mcp` frames, which have a codec of their own."""
        raise InvalidRequestError("tools are called by a frame of type mcp")

    def write(self, operation: Operation, result: Result, spec: EnvironmentSpec) -> bytes:
        """Writes the answer's frame; none for the opening, unless it has a window, and the end."""
        match result:
            case Observed():
                return write_frame("observation", observation_fields(result), operation.context)
            case StateRead():
                return write_frame("state", state_fields(result.state), operation.context)
            case Opened() if isinstance(operation.context, SessionKey):
                return session_frame(
                    result.session_id,
                    resume_key=operation.context.text,
                    resume_window_s=result.resume_window_s,
                )
            case Opened() | Closed():
                return b""
            case _:
                raise UnserializableResultError(f"/ws has no frame for {operation.kind.value}")

    def write_error(
        self, operation: Operation, error: OpenEnvError, spec: EnvironmentSpec | None
    ) -> bytes:
        """Writes an error frame."""
        return error_frame_for(error, spec, operation.context)


JSON_CODEC = JsonCodec()
