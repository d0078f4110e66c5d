"""The codecs of the gRPC doors: operations read from protos, results written as protos."""

from __future__ import annotations

import functools
from typing import Any, Protocol

from openenv_grpc.access import Grant
from openenv_grpc.environment_spec import EnvironmentSpec
from openenv_grpc.errors import InternalError, InvalidRequestError, OpenEnvError
from openenv_grpc.operations import (
    Closed,
    Evaluated,
    Kind,
    Observed,
    Opened,
    Operation,
    ResetArguments,
    Result,
    Saved,
    StateRead,
    StepArguments,
    ToolCall,
    ToolsListed,
)
from openenv_grpc.serialization import model_fields
from openenv_grpc.sessions import QueuePlace
from openenv_grpc.tools import ToolAnswer
from openenv_grpc.types import Budgets, JsonValue
from openenv_grpc.v1 import episode_pb2, session_pb2
from openenv_grpc.wire import payloads, status
from openenv_grpc.wire.actions import read_action
from openenv_grpc.wire.budgets import fill_budgets
from openenv_grpc.wire.crew import fill_own_worker
from openenv_grpc.wire.durations import fill_duration
from openenv_grpc.wire.observed import write_observed
from openenv_grpc.wire.tool_messages import fill_result, read_call, write_tool
from openenv_grpc.wire.varints import varint

MAX_EPISODE_ID = 255

# Tags of an `Outcome`'s fields.
_REQUEST_ID_TAG = b"\x10"  # 2
_STEP_TAG = b"\x2a"  # 5
_RESET_EPISODE_TAG = b"\x32"  # 6

_STEP = Kind.STEP  # an enumeration's members are slow to look up


class _Verdict(Protocol):
    """The fields that all messages with a verdict share."""

    reward: float
    terminated: bool
    truncated: bool


class ProtoCodec:
    """Reads what the messages of both services have in common: fields of the same names."""

    def read_reset(self, operation: Operation, spec: EnvironmentSpec) -> ResetArguments:
        """Reads a `ResetEpisode` or a `ResetRequest`."""
        message: session_pb2.ResetEpisode | episode_pb2.ResetRequest = operation.payload
        keywords: dict[str, JsonValue] = {}
        if message.HasField("options"):
            keywords = payloads.decode_object(message.options, what="options")
            for name in ("seed", "episode_id"):
                if name in keywords:
                    raise InvalidRequestError(f"{name} has a field of its own beside the options")
        if message.HasField("seed"):
            keywords["seed"] = message.seed
        if message.episode_id:
            if len(message.episode_id) > MAX_EPISODE_ID:
                raise InvalidRequestError(f"an episode_id has at most {MAX_EPISODE_ID} characters")
            keywords["episode_id"] = message.episode_id
        return ResetArguments(keywords=keywords, strict=True)

    def read_step(self, operation: Operation, spec: EnvironmentSpec) -> StepArguments:
        """Reads a `Step` or a `StepRequest`, or the JSON of one that has nothing else."""
        message: session_pb2.Step | episode_pb2.StepRequest | str = operation.payload
        if isinstance(message, str):
            return StepArguments(spec.action_reader.from_json(message))
        action = read_action(message.action, spec.action_reader)
        if not message.HasField("options"):
            return StepArguments(action)
        keywords = payloads.decode_object(message.options, what="options")
        return StepArguments(action=action, keywords=keywords, strict=True)

    def read_tool_call(self, operation: Operation, spec: EnvironmentSpec) -> ToolCall:
        """Refuses."""
        raise InternalError("this codec reads no tool calls")


class ConnectCodec(ProtoCodec):
    """Writes the `Outcome`s of a stream, without the session's number, which is the stream's."""

    def read_tool_call(self, operation: Operation, spec: EnvironmentSpec) -> ToolCall:
        """Reads a `CallTool`."""
        return read_call(operation.payload)

    def write(self, operation: Operation, result: Result, spec: EnvironmentSpec) -> bytes:
        """Writes the outcome of an operation that went well."""
        if isinstance(result, Observed):
            tag, rest = _STEP_TAG, b""
            if operation.kind is not _STEP or result.rewards:
                tag, rest = _rest_of(operation, result)
            before = _numbered(operation.request_id)
            return write_observed(result, rest, before=before, tag=tag)
        outcome = session_pb2.Outcome()
        if operation.request_id:
            outcome.request_id = operation.request_id
        match result:
            case StateRead():
                fill_state(outcome.get_state, result)
            case Evaluated():
                fill_verdict(outcome.evaluate, result)
                outcome.evaluate.SetInParent()
                outcome.evaluate.rewards.update(result.rewards)
            case Opened():
                fill_opened(outcome.open, operation, result, spec)
                if result.resume_window_s is not None:
                    fill_duration(outcome.open.resume_window, result.resume_window_s)
                fill_own_worker(outcome.open.worker, result.crew)
            case Saved():
                outcome.snapshot.snapshot_id = result.snapshot_id
                outcome.snapshot.size_bytes = result.size_bytes
            case Closed():
                outcome.close.SetInParent()
                outcome.close.step_count = result.step_count
            case ToolsListed():
                outcome.list_tools.SetInParent()
                outcome.list_tools.tools.extend(map(write_tool, result.tools))
            case ToolAnswer():
                fill_result(outcome.call_tool.result, result)
            case _:
                raise InternalError(f"a stream has no outcome for {type(result).__name__}")
        return outcome.SerializeToString()

    def write_error(
        self, operation: Operation, error: OpenEnvError, spec: EnvironmentSpec | None
    ) -> bytes:
        """Writes the outcome of a failed operation."""
        return failed_outcome(error, request_id=operation.request_id or 0)


@functools.lru_cache(maxsize=4096)  # sessions that are driven alike have the same ones
def _numbered(request_id: int | None) -> bytes:
    """Writes an outcome's number, if it has one."""
    return _REQUEST_ID_TAG + varint(request_id) if request_id else b""


def _rest_of(operation: Operation, result: Observed) -> tuple[bytes, bytes]:
    """Returns an outcome's arm, and what its message has beside the observation, reward and end."""
    if operation.kind is Kind.RESET:
        name = result.episode_id or ""
        begun = session_pb2.ResetEpisodeResult(episode_id=name)
        return _RESET_EPISODE_TAG, begun.SerializeToString()
    return _STEP_TAG, session_pb2.StepResult(rewards=result.rewards).SerializeToString()


def failed_outcome(
    error: OpenEnvError, *, request_id: int = 0, control_id: int = 0, brief: bool = False
) -> bytes:
    """Writes an `Outcome` with an error, without the session's number."""
    outcome = session_pb2.Outcome(request_id=request_id, control_id=control_id)
    (status.encode_brief_error if brief else status.encode_error)(outcome.error, error)
    return outcome.SerializeToString()


def queue_progress(place: QueuePlace, *, request_id: int) -> bytes:
    """Writes an `Outcome` that tells where an opening stands which waits for a slot."""
    outcome = session_pb2.Outcome(request_id=request_id)
    progress = outcome.progress
    progress.queue_position = place.position
    progress.session_limit = place.session_limit
    fill_duration(progress.elapsed_time, place.waited_s)
    fill_duration(progress.queue_timeout, place.limit_s)
    return outcome.SerializeToString()


class UnaryCodec(ProtoCodec):
    """Writes the responses of `EpisodeService`."""

    def write(self, operation: Operation, result: Result, spec: EnvironmentSpec) -> bytes:
        """Writes the response of an operation that went well."""
        response: Any
        match result:
            case Observed():
                response = episode_pb2.StepResponse(rewards=result.rewards)
                if operation.kind is Kind.RESET:
                    response = episode_pb2.ResetResponse(episode_id=result.episode_id or "")
                return write_observed(result, response.SerializeToString())
            case StateRead():
                response = episode_pb2.GetStateResponse()
                fill_state(response, result)
            case Evaluated():
                response = episode_pb2.EvaluateResponse(rewards=result.rewards)
                fill_verdict(response, result)
            case Opened():
                response = episode_pb2.OpenResponse()
                fill_opened(response, operation, result, spec)
            case Closed():
                response = episode_pb2.CloseResponse(step_count=result.step_count)
            case _:
                raise InternalError(f"there is no response for {type(result).__name__}")
        content: bytes = response.SerializeToString()
        return content

    def write_error(
        self, operation: Operation, error: OpenEnvError, spec: EnvironmentSpec | None
    ) -> bytes:
        """Writes nothing: a failed call ends with a status."""
        return b""


def fill_opened(
    message: session_pb2.OpenResult | episode_pb2.OpenResponse,
    operation: Operation,
    result: Opened,
    spec: EnvironmentSpec,
) -> None:
    """Fills a session's names, its budgets, and access for its agent.

    That is minted if the door put a grant in `context`.
    """
    message.session_id = result.session_id
    message.environment = result.environment
    if spec.budgets != Budgets():
        fill_budgets(message.budgets, spec.budgets)
    grant: Grant | None = operation.context
    if grant is not None:
        access = grant(result.session_id)
        message.agent_access.token = access.token
        message.agent_access.mcp_url = access.mcp_url
        message.agent_access.SetInParent()


def fill_verdict(message: _Verdict, result: Evaluated) -> None:
    """Fills reward and end."""
    if result.reward is not None:
        message.reward = float(result.reward)
    if result.truncated:
        message.truncated = True
    elif result.done:
        message.terminated = True


def fill_state(
    message: session_pb2.GetStateResult | episode_pb2.GetStateResponse, result: StateRead
) -> None:
    """Fills the state."""
    state = result.state
    plain = {} if state is None else state if isinstance(state, dict) else model_fields(state)
    payloads.encode_payload(message.state, plain)
    message.episode_id = result.episode_id or ""
    message.step_count = result.step_count
