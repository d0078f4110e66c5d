"""Calls as operations, and outcomes as the payloads that `_parse_result` takes."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from openenv_grpc.client.agent_access import AgentAccess
from openenv_grpc.client.remote_session import Evaluation
from openenv_grpc.errors import (
    Effect,
    InvalidRequestError,
    OpenEnvError,
    ProtocolViolationError,
)
from openenv_grpc.types import JsonValue
from openenv_grpc.v1 import payload_pb2, session_pb2
from openenv_grpc.wire import durations, payloads
from openenv_grpc.wire.peeling import Peeled

Observed = session_pb2.StepResult | session_pb2.ResetEpisodeResult

_INT64 = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True)
class Group:
    """Sessions of one stream that get their slots together: none does before all can."""

    size: int
    name: str = field(default_factory=partial(secrets.token_hex, 8))


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
) -> session_pb2.Operation:
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
    return operation


def attach(
    session_id: str, *, resume_key: str, control_id: int, progress: bool, events: bool
) -> session_pb2.Operation:
    """Makes an `attach`."""
    operation = session_pb2.Operation(control_id=control_id)
    operation.attach.session_id = session_id
    operation.attach.resume_key = resume_key
    operation.attach.progress = operation.attach.reports = progress
    operation.attach.events = events
    return operation


def cancel(request_id: int) -> session_pb2.Operation:
    """Makes a `cancel`."""
    operation = session_pb2.Operation()
    operation.cancel.request_id = request_id
    return operation


def reset_episode(keywords: Mapping[str, JsonValue]) -> session_pb2.Operation:
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
        _fill(reset.options, options, what="reset's keywords")
    return operation


def step(
    action: Mapping[str, JsonValue], keywords: Mapping[str, JsonValue]
) -> session_pb2.Operation:
    """Makes a `step`. Raises `InvalidRequestError` if a value cannot be sent."""
    operation = session_pb2.Operation()
    _fill(operation.step.action, action, what="the action")
    if keywords:
        _fill(operation.step.options, keywords, what="step's keywords")
    return operation


def get_state() -> session_pb2.Operation:
    """Makes a `get_state`."""
    operation = session_pb2.Operation()
    operation.get_state.SetInParent()
    return operation


def evaluate() -> session_pb2.Operation:
    """Makes an `evaluate`."""
    operation = session_pb2.Operation()
    operation.evaluate.SetInParent()
    return operation


def list_tools() -> session_pb2.Operation:
    """Makes a `list_tools`."""
    operation = session_pb2.Operation()
    operation.list_tools.SetInParent()
    return operation


def call_tool(name: str, arguments: Mapping[str, JsonValue]) -> session_pb2.Operation:
    """Makes a `call_tool`. Raises `InvalidRequestError` if an argument cannot be sent."""
    operation = session_pb2.Operation()
    operation.call_tool.tool_name = name
    if arguments:
        _fill(operation.call_tool.arguments, arguments, what=f"the arguments of {name}")
    return operation


def snapshot() -> session_pb2.Operation:
    """Makes a `snapshot`."""
    operation = session_pb2.Operation()
    operation.snapshot.SetInParent()
    return operation


def close() -> session_pb2.Operation:
    """Makes a `close`."""
    operation = session_pb2.Operation()
    operation.close.SetInParent()
    return operation


def _fill(message: payload_pb2.Payload, value: Mapping[str, JsonValue], *, what: str) -> None:
    try:
        payloads.encode_payload(message, value if type(value) is dict else dict(value))
    except OpenEnvError as error:
        raise InvalidRequestError(f"{what} cannot be sent: {error.message}") from error


def _read(
    message: payload_pb2.Payload, *, what: str, peeled: Peeled | None = None
) -> dict[str, JsonValue]:
    try:
        return payloads.decode_object(message, what=f"{what}s", peeled=peeled)
    except InvalidRequestError as error:
        raise ProtocolViolationError(
            f"the server sent a broken {what}: {error.message}", effect=Effect.DONE
        ) from error


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


def observed(result: Observed, peeled: Peeled | None = None) -> dict[str, Any]:
    """Returns the payload of an observation; `peeled` has the bytes that were taken out of it."""
    observation = _read(result.observation, what="observation", peeled=peeled)
    terminated, truncated = result.terminated, result.truncated
    payload: dict[str, Any] = {
        "observation": observation,
        "reward": result.reward if result.HasField("reward") else None,
        "done": terminated or truncated,
        "terminated": terminated,
        "truncated": truncated,
        "info": _info(result),
    }
    metadata = observation.get("metadata")
    if metadata:
        payload["metadata"] = metadata
    return payload


def _info(result: Observed) -> dict[str, Any]:
    if isinstance(result, session_pb2.ResetEpisodeResult):
        return {"episode_id": result.episode_id} if result.episode_id else {}
    rewards = result.rewards
    return {"rewards": dict(rewards)} if rewards else {}


def state_read(result: session_pb2.GetStateResult) -> dict[str, Any]:
    """Returns a state."""
    return _read(result.state, what="state")


def evaluated(result: session_pb2.EvaluateResult) -> Evaluation:
    """Returns a verdict."""
    return Evaluation(
        reward=result.reward if result.HasField("reward") else None,
        rewards=dict(result.rewards),
        terminated=result.terminated,
        truncated=result.truncated,
    )
