"""What a session tells without being asked: read, and passed on to those who want to know."""

from __future__ import annotations

from typing import cast

from openenv_grpc.client.events import (
    EVENTS,
    PROGRESS,
    Audience,
    Draining,
    Event,
    Progress,
    SessionLost,
    ToolCalled,
)
from openenv_grpc.client.tool_results import read_block
from openenv_grpc.errors import (
    InvalidRequestError,
    NotSupportedError,
    OpenEnvError,
    ProtocolViolationError,
)
from openenv_grpc.tools import LogLevel, ToolLog, ToolProgress
from openenv_grpc.tools.notices import LOG_LEVELS
from openenv_grpc.v1 import session_pb2
from openenv_grpc.wire import payloads, status


class Listening:
    """The audience of one session."""

    def __init__(self, audience: Audience, features: frozenset[str], *, target: str) -> None:
        """Notes what is wanted, of what the server can tell.

        Raises:
            NotSupportedError: events are wanted, and it tells none.
        """
        self._audience = audience
        self.progress = audience.on_progress is not None and PROGRESS in features
        """Whether progress is to be told."""
        self.events = audience.events is not None
        """Whether events are."""
        if self.events and EVENTS not in features:
            raise NotSupportedError(f"{target} tells no events; leave events=True out")

    def hear_progress(self, message: session_pb2.Progress, *, call: str) -> None:
        """Passes on how far a call is, if its name is known.

        Raises:
            ProtocolViolationError: it is broken.
        """
        if call:
            progress = Progress(
                call=call,
                elapsed_s=message.elapsed_time.ToNanoseconds() / 1e9,
                message=message.message,
                report=_read_report(message),
                queue_position=message.queue_position,
            )
            self._audience.progress(progress)

    def hear_event(self, message: session_pb2.Event) -> None:
        """Passes on what happened, if it is of a kind that is known here.

        Raises:
            ProtocolViolationError: it is broken.
        """
        event = _read_event(message) if self.events else None
        if event is not None:
            self._audience.event(event)

    def lost(self, error: OpenEnvError) -> None:
        """Passes on that the session is gone."""
        self._audience.event(SessionLost(error=error))


def _read_report(message: session_pb2.Progress) -> ToolProgress | ToolLog | None:
    match message.WhichOneof("report"):
        case "tool_progress":
            told = message.tool_progress
            return ToolProgress(
                progress=told.progress,
                total=told.total if told.HasField("total") else None,
                message=told.message,
            )
        case "tool_log" if message.tool_log.level in LOG_LEVELS:
            log = message.tool_log
            try:
                data = payloads.decode_payload(log.data)
            except InvalidRequestError as error:
                raise ProtocolViolationError(
                    f"the server sent a broken log of a tool: {error.message}"
                ) from error
            return ToolLog(level=cast("LogLevel", log.level), data=data, logger=log.logger)
        case _:
            return None


def _read_event(message: session_pb2.Event) -> Event | None:
    match message.WhichOneof("kind"):
        case "tool_called":
            return _tool_called(message)
        case "draining":
            known = message.draining.HasField("remaining_time")
            remaining_s = message.draining.remaining_time.ToNanoseconds() / 1e9
            return Draining(remaining_s=remaining_s if known else None)
        case _:
            return None


def _tool_called(message: session_pb2.Event) -> ToolCalled:
    called = message.tool_called
    result = called.result
    try:
        arguments = payloads.decode_object(called.arguments, what="arguments")
        data = payloads.decode_payload(result.structured) if result.HasField("structured") else None
    except InvalidRequestError as error:
        raise ProtocolViolationError(f"the server sent a broken event: {error.message}") from error
    return ToolCalled(
        tool_name=called.tool_name,
        arguments=arguments,
        failed=called.failed,
        content=[read_block(content) for content in result.contents],
        data=data,
        error=status.decode_error(called.error) if called.HasField("error") else None,
        reward=called.reward if called.HasField("reward") else None,
        rewards=dict(called.rewards),
        terminated=called.terminated,
        truncated=called.truncated,
        cut=called.cut,
        time=message.event_time.ToNanoseconds() / 1e9,
    )
