"""Calls as operations, as they are sent but for their numbers; and outcomes read."""

from __future__ import annotations

import functools
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from google.protobuf import duration_pb2

from openenv_grpc.client.agent_access import AgentAccess
from openenv_grpc.client.outcomes import Evaluation, Observed, Seen
from openenv_grpc.errors import (
    Effect,
    InvalidRequestError,
    OpenEnvError,
    ProtocolViolationError,
)
from openenv_grpc.serialization import json_kind
from openenv_grpc.types import JsonValue
from openenv_grpc.v1 import payload_pb2, session_pb2
from openenv_grpc.wire import durations, payloads
from openenv_grpc.wire.alike import Alike
from openenv_grpc.wire.payload_bytes import write_payload
from openenv_grpc.wire.peeling import Peeled
from openenv_grpc.wire.varints import varint

_INT64 = range(-(2**63), 2**63)

_REQUEST_ID, _ACKNOWLEDGED_ID = b"\x10", b"\x18"  # fields 2 and 3 of an `Operation`
_TIMEOUT, _STEP, _TRACEPARENT = b"\x22", b"\x2a", b"\x8a\x01"  # fields 4, 5 and 17
_KEPT = 1024  # heads that are kept, since they come again and again
_ACTION, _OPTIONS = b"\x0a", b"\x12"  # fields 1 and 2 of a `Step`


@dataclass(frozen=True, slots=True)
class Group:
    """Sessions of one stream that get their slots together: none does before all can."""

    size: int
    name: str = field(default_factory=partial(secrets.token_hex, 8))


def numbered(
    operation: bytes,
    request_id: int,
    acknowledged_id: int,
    timeout_s: float | None = None,
    traceparent: str = "",
) -> bytes:
    """Puts an operation's number before it, and up to which one all outcomes have arrived."""
    number = _number(request_id, acknowledged_id)
    if timeout_s is None and not traceparent:
        return number + operation
    pieces = [number]
    if timeout_s is not None:
        timeout = duration_pb2.Duration()
        timeout.FromNanoseconds(max(1, round(timeout_s * 1e9)))
        written = timeout.SerializeToString()
        pieces += (_TIMEOUT, varint(len(written)), written)
    pieces.append(operation)
    if traceparent:
        written = traceparent.encode()
        pieces += (_TRACEPARENT, varint(len(written)), written)
    return b"".join(pieces)


@functools.lru_cache(maxsize=_KEPT)  # sessions that are driven alike have the same ones
def _number(request_id: int, acknowledged_id: int) -> bytes:
    number = _REQUEST_ID + varint(request_id)
    return number + _ACKNOWLEDGED_ID + varint(acknowledged_id) if acknowledged_id else number


def open_session(
    environment: str,
    *,
    agent_access: bool = False,
    resume_key: str = "",
    resume_window_s: float | None = None,
    queue_timeout_s: float | None = None,
    progress: bool = False,
    events: bool = False,
    snapshot_id: str = "",
    group: Group | None = None,
) -> bytes:
    """Makes an `open`, of a session that outlives its stream if there is a window.

    With a `queue_timeout_s` it may wait for a slot, and asks to be told where it stands. Opens of
    one `group` get their slots together.
    """
    operation = session_pb2.Operation()
    operation.open.progress = operation.open.reports = progress
    operation.open.events = events
    operation.open.environment = environment
    operation.open.agent_access = agent_access
    operation.open.snapshot_id = snapshot_id
    if group is not None:
        operation.open.group, operation.open.group_size = group.name, group.size
    if resume_window_s is not None:
        operation.open.resume_key = resume_key
        durations.fill_duration(operation.open.resume_window, resume_window_s)
    if queue_timeout_s is not None:
        durations.fill_duration(operation.open.queue_timeout, queue_timeout_s)
        operation.open.progress = True
    return operation.SerializeToString()


def attach(
    session_id: str, *, resume_key: str, control_id: int, progress: bool, events: bool
) -> bytes:
    """Makes an `attach`."""
    operation = session_pb2.Operation(control_id=control_id)
    operation.attach.session_id = session_id
    operation.attach.resume_key = resume_key
    operation.attach.progress = operation.attach.reports = progress
    operation.attach.events = events
    return operation.SerializeToString()


def cancel(request_id: int) -> bytes:
    """Makes a `cancel`."""
    operation = session_pb2.Operation()
    operation.cancel.request_id = request_id
    return operation.SerializeToString()


def reset_episode(keywords: Mapping[str, JsonValue]) -> bytes:
    """Makes a `reset_episode`: `seed` and `episode_id` by themselves, the rest as options.

    Raises:
        InvalidRequestError: a keyword has a value that cannot be sent.
    """
    operation = session_pb2.Operation()
    reset = operation.reset_episode
    reset.SetInParent()
    options = dict(keywords)
    seed, episode_id = options.pop("seed", None), options.pop("episode_id", None)
    if seed is not None:
        if not isinstance(seed, int) or seed not in _INT64:
            raise InvalidRequestError(f"seed has to be an integer of at most 64 bits, not {seed!r}")
        reset.seed = seed
    if episode_id is not None:
        if not isinstance(episode_id, str) or not 1 <= len(episode_id) <= 255:
            raise InvalidRequestError("episode_id has to be a string of 1 to 255 characters")
        reset.episode_id = episode_id
    if options:
        reset.options.MergeFromString(payload(options, what="reset's keywords"))
    return operation.SerializeToString()


def step(action: bytes, keywords: Mapping[str, JsonValue]) -> bytes:
    """Makes a `step` of an action that `payload` has made."""
    if not keywords:
        return _step_head(len(action), 0) + action
    options = payload(keywords, what="step's keywords")
    rest = b"".join((_OPTIONS, varint(len(options)), options))
    return b"".join((_step_head(len(action), len(rest)), action, rest))


@functools.lru_cache(maxsize=_KEPT)
def _step_head(action_bytes: int, rest_bytes: int) -> bytes:
    """Writes what stands before a step's action."""
    action = _ACTION + varint(action_bytes)
    return _STEP + varint(len(action) + action_bytes + rest_bytes) + action


def payload(value: Mapping[str, JsonValue], *, what: str = "the action") -> bytes:
    """Makes a payload. Raises `InvalidRequestError` if a value cannot be sent."""
    try:
        return write_payload(value if type(value) is dict else dict(value))
    except OpenEnvError as error:
        raise InvalidRequestError(f"{what} cannot be sent: {error.message}") from error


def get_state() -> bytes:
    """Makes a `get_state`."""
    operation = session_pb2.Operation()
    operation.get_state.SetInParent()
    return operation.SerializeToString()


def evaluate() -> bytes:
    """Makes an `evaluate`."""
    operation = session_pb2.Operation()
    operation.evaluate.SetInParent()
    return operation.SerializeToString()


def list_tools() -> bytes:
    """Makes a `list_tools`."""
    operation = session_pb2.Operation()
    operation.list_tools.SetInParent()
    return operation.SerializeToString()


def call_tool(name: str, arguments: Mapping[str, JsonValue]) -> bytes:
    """Makes a `call_tool`. Raises `InvalidRequestError` if an argument cannot be sent."""
    operation = session_pb2.Operation()
    operation.call_tool.tool_name = name
    if arguments:
        written = payload(arguments, what=f"the arguments of {name}")
        operation.call_tool.arguments.MergeFromString(written)
    return operation.SerializeToString()


def snapshot() -> bytes:
    """Makes a `snapshot`."""
    operation = session_pb2.Operation()
    operation.snapshot.SetInParent()
    return operation.SerializeToString()


def close() -> bytes:
    """Makes a `close`."""
    operation = session_pb2.Operation()
    operation.close.SetInParent()
    return operation.SerializeToString()


def _recognized(message: payload_pb2.Payload, alike: Alike) -> Seen:
    """Reads an observation, unless it is like the last one."""
    recognized = alike.recognize(message)
    if recognized is not None:
        return recognized
    value = _read(message, "observation")
    alike.learn(message, value)
    return value


def _read(
    message: payload_pb2.Payload, what: str, peeled: Peeled | None = None
) -> dict[str, JsonValue]:
    try:
        value = payloads.decode_payload(message, peeled)
    except InvalidRequestError as error:
        raise _broken(what, error.message) from error
    if type(value) is not dict:
        raise _broken(what, f"{what}s have to be a JSON object, not {json_kind(value)}")
    return value


def _broken(what: str, reason: str) -> ProtocolViolationError:
    return ProtocolViolationError(f"the server sent a broken {what}: {reason}", effect=Effect.DONE)


def granted_window_s(result: session_pb2.OpenResult) -> float | None:
    """Returns how long a session outlives its stream, if it does."""
    if not result.HasField("resume_window"):
        return None
    return durations.read_duration(result.resume_window, what="resume_window")


def agent_access(result: session_pb2.OpenResult) -> AgentAccess:
    """Returns what a session's agent needs."""
    return AgentAccess(
        url=result.agent_access.mcp_url,
        token=result.agent_access.token,
        session_id=result.session_id,
    )


def stepped(
    result: session_pb2.StepResult, peeled: Peeled | None, alike: Alike | None = None
) -> Observed:
    """Reads a step; `peeled` has the bytes that were taken out of its observation.

    With `alike` the observation is left as it is if it is like the last one.
    """
    rewards, seen = result.rewards, result.observation
    if alike is not None and alike.looks and peeled is None:
        observation = _recognized(seen, alike)
    else:
        observation = _read(seen, "observation", peeled)
    return (
        observation,
        result.reward if result.HasField("reward") else None,
        result.terminated,
        result.truncated,
        {"rewards": dict(rewards)} if rewards else {},
    )


def begun(result: session_pb2.ResetEpisodeResult, peeled: Peeled | None) -> Observed:
    """Reads a reset; `peeled` has the bytes that were taken out of its observation."""
    episode_id = result.episode_id
    return (
        _read(result.observation, "observation", peeled),
        result.reward if result.HasField("reward") else None,
        result.terminated,
        result.truncated,
        {"episode_id": episode_id} if episode_id else {},
    )


def state_read(result: session_pb2.GetStateResult) -> dict[str, Any]:
    """Returns a state."""
    return _read(result.state, "state")


def evaluated(result: session_pb2.EvaluateResult) -> Evaluation:
    """Returns a verdict."""
    return Evaluation(
        reward=result.reward if result.HasField("reward") else None,
        rewards=dict(result.rewards),
        terminated=result.terminated,
        truncated=result.truncated,
    )
