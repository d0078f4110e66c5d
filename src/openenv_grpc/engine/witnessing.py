"""Tool calls that a trainer watches: the event of one is written where its answer is."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable

from openenv_grpc.environment_spec import EnvironmentSpec
from openenv_grpc.errors import OpenEnvError
from openenv_grpc.operations import (
    Codec,
    Operation,
    ResetArguments,
    Result,
    StepArguments,
    ToolCall,
)
from openenv_grpc.sessions import EventCodec
from openenv_grpc.tools import ToolAnswer

logger = logging.getLogger(__name__)

_SIZE = struct.Struct("<Q")


class WitnessedCodec:
    """The codec of one tool call: writes the event of it behind what its door is answered.

    So the event is written on the session's thread, or in its process, like everything else.
    """

    def __init__(self, codec: Codec, events: EventCodec) -> None:
        self._codec = codec
        self._events = events
        self._call: ToolCall | None = None  # once it has been read

    def read_reset(self, operation: Operation, spec: EnvironmentSpec) -> ResetArguments:
        """See `Codec`."""
        return self._codec.read_reset(operation, spec)

    def read_step(self, operation: Operation, spec: EnvironmentSpec) -> StepArguments:
        """See `Codec`."""
        return self._codec.read_step(operation, spec)

    def read_tool_call(self, operation: Operation, spec: EnvironmentSpec) -> ToolCall:
        """See `Codec`."""
        self._call = self._codec.read_tool_call(operation, spec)
        return self._call

    def write(self, operation: Operation, result: Result, spec: EnvironmentSpec) -> bytes:
        """Writes the answer, and the event behind it."""
        content = self._codec.write(operation, result, spec)
        answer = result if isinstance(result, ToolAnswer) else None
        return self._joined(content, operation, answer, None, spec)

    def write_error(
        self, operation: Operation, error: OpenEnvError, spec: EnvironmentSpec | None
    ) -> bytes:
        """Writes the answer, and the event behind it."""
        content = self._codec.write_error(operation, error, spec)
        return self._joined(content, operation, None, error, spec)

    def _joined(
        self,
        content: bytes,
        operation: Operation,
        answer: ToolAnswer | None,
        error: OpenEnvError | None,
        spec: EnvironmentSpec | None,
    ) -> bytes:
        event = b""
        try:
            if self._call is None and spec is not None:  # it was read elsewhere, or not at all
                self._call = self._codec.read_tool_call(operation, spec)
            if self._call is not None:
                event = self._events.write_tool_called(self._call, answer, error)
        except Exception:  # an agent is answered whether or not its trainer can be told
            logger.debug("tool call not told", exc_info=True)
        return b"".join((_SIZE.pack(len(content)), content, event))


class Witness:
    """Has the event of a tool call written with its answer, takes both apart, and tells it."""

    def __init__(
        self, operation: Operation, events: EventCodec, tell: Callable[[bytes], None]
    ) -> None:
        self._operation = operation
        self._codec = operation.codec
        self._tell = tell
        self._event = b""
        operation.codec = WitnessedCodec(operation.codec, events)

    def answer(self, joined: bytes) -> bytes:
        """Returns what the call's door is answered, and keeps the event."""
        self._operation.codec = self._codec
        content, self._event = _apart(joined)
        return content

    def tell(self) -> None:
        """Tells the event."""
        if self._event:
            self._tell(self._event)


def _apart(joined: bytes) -> tuple[bytes, bytes]:
    if not joined:
        return b"", b""
    end = _SIZE.size + _SIZE.unpack_from(joined)[0]
    return joined[_SIZE.size : end], joined[end:]
