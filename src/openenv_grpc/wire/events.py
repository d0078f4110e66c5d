"""What a stream says without being asked, as `Outcome`s without a session's number."""

from __future__ import annotations

from openenv_grpc.errors import OpenEnvError
from openenv_grpc.operations import ToolCall
from openenv_grpc.sessions import UnderWay
from openenv_grpc.tools import ToolAnswer, ToolLog, ToolNotice, ToolProgress
from openenv_grpc.v1 import session_pb2
from openenv_grpc.wire import payloads, status
from openenv_grpc.wire.durations import fill_duration
from openenv_grpc.wire.tool_messages import fill_log, fill_progress, fill_result


class ToolEventCodec:
    """Writes `ToolCalled`. Implements `EventCodec`."""

    def write_tool_called(
        self, call: ToolCall, answer: ToolAnswer | None, error: OpenEnvError | None
    ) -> bytes:
        """Writes that a tool was called, with its answer or what it ended with in place of one."""
        outcome = _event()
        called = outcome.event.tool_called
        called.tool_name = call.name
        payloads.encode_payload(called.arguments, call.arguments)
        if error is not None:
            called.failed = True
            status.encode_error(called.error, error)
        if answer is not None:
            called.failed = answer.is_error
            fill_result(called.result, answer)
            if answer.reward is not None:
                called.reward = float(answer.reward)
            called.rewards.update(answer.rewards)
            called.terminated, called.truncated = answer.terminated, answer.truncated
        return outcome.SerializeToString()


def without_contents(event: bytes) -> bytes:
    """Leaves out of a `ToolCalled` what can be of any size."""
    outcome = session_pb2.Outcome.FromString(event)
    called = outcome.event.tool_called
    for field in ("arguments", "result", "error"):
        called.ClearField(field)
    called.cut = True
    return outcome.SerializeToString()


def progress(operation: UnderWay) -> bytes:
    """Writes that an operation is under way."""
    outcome = session_pb2.Outcome(request_id=operation.request_id)
    fill_duration(outcome.progress.elapsed_time, operation.elapsed_s)
    return outcome.SerializeToString()


def reported(notice: ToolNotice, *, request_id: int, elapsed_s: float) -> bytes:
    """Writes what the code that an operation runs tells of itself."""
    outcome = session_pb2.Outcome(request_id=request_id)
    message = outcome.progress
    fill_duration(message.elapsed_time, elapsed_s)
    match notice:
        case ToolProgress():
            message.message = notice.message
            fill_progress(message.tool_progress, notice)
            message.tool_progress.elapsed_time.CopyFrom(message.elapsed_time)
        case ToolLog():
            fill_log(message.tool_log, notice)
    return outcome.SerializeToString()


def session_lost(error: OpenEnvError, *, brief: bool = False) -> bytes:
    """Writes that a session has ended, or is held elsewhere."""
    outcome = _event()
    encode = status.encode_brief_error if brief else status.encode_error
    encode(outcome.event.session_lost, error)
    return outcome.SerializeToString()


def draining(remaining_s: float | None) -> bytes:
    """Writes that the server drains, and how long it does so if that is known."""
    outcome = _event()
    outcome.event.draining.SetInParent()
    if remaining_s is not None:
        fill_duration(outcome.event.draining.remaining_time, remaining_s)
    return outcome.SerializeToString()


def _event() -> session_pb2.Outcome:
    outcome = session_pb2.Outcome()
    outcome.event.event_time.GetCurrentTime()
    return outcome
