"""What passes between a server and a worker process: frames on a socket, and a file beside it.

Large contents are written into an anonymous file that both have open, and read from there: each
is copied twice in all, and nothing is left behind however either of them ends. One content is
under way at a time, since a worker does one operation at a time.
"""

from __future__ import annotations

import enum
import json
import os
import pickle
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import NamedTuple

from openenv_grpc.errors import ERROR_TYPES, Effect, OpenEnvError, Reason, Violation
from openenv_grpc.operations import Kind, Listener, Operation
from openenv_grpc.tools import Change, Client, ToolLog, ToolNotice, ToolProgress, ToolQuestion
from openenv_grpc.tools.changes import TellChange
from openenv_grpc.types import JsonValue

INLINE_BYTES = 64 * 2**10
"""Contents from here on go through the file."""
SOCKET_BYTES = 4 * INLINE_BYTES
"""Asked for as a socket's buffers, so that a frame of the server's always finds room."""

_HEADER = struct.Struct("<BBIQq")  # kind, whether the content is in the file, two sizes, number
_NO_FACTS = b""


class FrameKind(enum.IntEnum):
    """What a frame says."""

    # To the worker
    BUILD = 1
    """Build the environment. Content: the session's id, and modules to import before its use."""
    RUN = 2
    """Do an operation. Content: its fields."""
    CANCEL = 3
    """Cancel the operation of that number, if it is awaited and still runs."""
    CLOSE = 4
    """Close the environment and end."""
    ANSWER = 15
    """The client was asked. Content: the question's key, and the result or why there is none."""

    # To the server
    WARM = 5
    """The environment's module is imported."""
    FAILED = 6
    """It could not be imported, or the environment not be built. Facts: why."""
    BUILT = 7
    """The environment stands. Facts: what it is."""
    OUTCOME = 8
    """An operation is done. Number: twice the steps so far, and one more while an episode is under
    way. Content: the answer. Facts: its error, if any."""
    CANCELLED = 9
    """An awaited operation was cancelled."""
    BROKE = 10
    """An operation ended as none should. Facts: how."""
    CLOSED = 11
    """The environment is closed."""
    LOG = 12
    """Something to be logged. Facts: the record."""
    NOTICE = 13
    """A tool tells something. Number: that of the operation. Facts: the notice."""
    ASKED = 14
    """A tool asks its caller's client. Number: that of the operation. Facts: the questions."""
    CHANGED = 16
    """The environment tells of a change. Number: that of the operation. Facts: the change."""


class Frame(NamedTuple):
    """One frame."""

    kind: int
    number: int
    facts: bytes
    content: bytes


def anonymous_file() -> int:
    """Opens a file that has no name and is gone once nobody has it open."""
    if sys.platform == "linux":
        return os.memfd_create("openenv-grpc")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def write_frame(
    file: int, kind: int, *, number: int = 0, facts: bytes = _NO_FACTS, content: bytes = b""
) -> bytes:
    """Returns what goes onto the socket; a large content goes into the file at once."""
    size = len(content)
    if size < INLINE_BYTES:
        return _HEADER.pack(kind, 0, len(facts), size, number) + facts + content
    rest, offset = memoryview(content), 0
    while offset < size:
        offset += os.pwrite(file, rest[offset:], offset)
    return _HEADER.pack(kind, 1, len(facts), size, number) + facts


class FrameReader:
    """Makes frames of what arrives on a socket."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._buffer = bytearray()

    def feed(self, chunk: bytes) -> Iterator[Frame]:
        """Takes what has arrived, and returns the frames that are whole now."""
        buffer = self._buffer
        buffer += chunk
        while len(buffer) >= _HEADER.size:
            kind, in_file, facts_size, size, number = _HEADER.unpack_from(buffer)
            facts_end = _HEADER.size + facts_size
            end = facts_end if in_file else facts_end + size
            if len(buffer) < end:
                return
            facts = bytes(buffer[_HEADER.size : facts_end])
            content = self._read(size) if in_file else bytes(buffer[facts_end:end])
            del buffer[:end]
            yield Frame(kind, number, facts, content)

    def _read(self, size: int) -> bytes:
        content = os.pread(self._file, size, 0)
        if len(content) == size:
            return content
        parts = [content]  # a single read has a limit, at about 2 GiB
        while (left := size - sum(map(len, parts))) > 0:
            part = os.pread(self._file, left, size - left)
            if not part:
                raise EOFError("the content is not there")
            parts.append(part)
        return b"".join(parts)


def write_error(error: OpenEnvError) -> bytes:
    """Writes an error's fields. Not its cause, whose traceback is logged where it is known."""
    return json.dumps(
        {
            "reason": error.reason.value,
            "message": error.message,
            "effect": error.effect.value,
            "session_lost": error.session_lost,
            "retry_delay_s": error.retry_delay_s,
            "violations": [[each.path, each.type, each.message] for each in error.violations],
            "metadata": error.metadata,
        },
        default=str,
    ).encode()


def read_error(facts: bytes) -> OpenEnvError:
    """Reads what `write_error` wrote."""
    fields = json.loads(facts)
    return ERROR_TYPES[Reason(fields["reason"])](
        fields["message"],
        effect=Effect(fields["effect"]),
        session_lost=fields["session_lost"],
        retry_delay_s=fields["retry_delay_s"],
        violations=[
            Violation(path=path, type=kind, message=message)
            for path, kind, message in fields["violations"]
        ],
        metadata=fields["metadata"],
    )


def write_operation(operation: Operation) -> bytes:
    """Writes an operation for the worker, which trusts the server; never the other way round."""
    return pickle.dumps(
        (
            operation.kind.value,
            operation.codec,
            operation.payload,
            operation.request_id,
            operation.timeout_s,
            operation.context,
            operation.trace,
            operation.listener is not None,
            None if operation.client is None else operation.client.offers,
            operation.changes is not None,
        ),
        protocol=5,
    )


def read_operation(
    content: bytes,
    listener: Listener,
    client_of: Callable[[frozenset[str]], Client],
    tell_change: TellChange,
) -> Operation:
    """Reads what `write_operation` wrote.

    `listener` is told if somebody listens, `tell_change` if somebody follows; `client_of` makes
    who is asked, of what it offers.
    """
    kind, codec, payload, request_id, timeout_s, context, trace, *around = pickle.loads(content)
    is_heard, offers, is_followed = around
    operation = Operation(
        kind=Kind(kind),
        codec=codec,
        payload=payload,
        request_id=request_id,
        timeout_s=timeout_s,
        context=context,
    )
    operation.trace = trace
    if is_heard:
        operation.listener = listener
    if offers is not None:
        operation.client = client_of(offers)
    if is_followed:
        operation.changes = tell_change
    return operation


def write_notice(notice: ToolNotice) -> bytes:
    """Writes what a tool tells."""
    return json.dumps([type(notice).__name__, asdict(notice)]).encode()


def read_notice(facts: bytes) -> ToolNotice:
    """Reads what `write_notice` wrote."""
    kind, fields = json.loads(facts)
    return ToolLog(**fields) if kind == ToolLog.__name__ else ToolProgress(**fields)


def write_questions(questions: Sequence[ToolQuestion]) -> bytes:
    """Writes what a tool asks."""
    return json.dumps([[each.key, each.method, each.params] for each in questions]).encode()


def read_questions(facts: bytes) -> list[ToolQuestion]:
    """Reads what `write_questions` wrote."""
    return [
        ToolQuestion(key=key, method=method, params=params)
        for key, method, params in json.loads(facts)
    ]


def write_answer(question: ToolQuestion) -> bytes:
    """Writes what came of a question that is answered."""
    error = question.answered.exception()
    result = question.answered.result() if error is None else None
    content = json.dumps([question.key, result, None if error is None else str(error)]).encode()
    if len(content) < INLINE_BYTES:
        return content
    told = f"the answer has {len(content)} bytes; a worker process takes {INLINE_BYTES}"
    return json.dumps([question.key, None, told]).encode()


def read_answer(content: bytes) -> tuple[str, JsonValue, str | None]:
    """Reads what `write_answer` wrote: the key, and the result or why there is none."""
    key, result, error = json.loads(content)
    return key, result, error


def write_change(change: Change) -> bytes:
    """Writes what changed."""
    return json.dumps([change.listed, change.uri]).encode()


def read_change(facts: bytes) -> Change:
    """Reads what `write_change` wrote."""
    listed, uri = json.loads(facts)
    return Change(listed=listed, uri=uri)
