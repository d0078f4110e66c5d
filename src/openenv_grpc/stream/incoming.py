"""What a client asks for on a stream, checked and made an operation of a session."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from google.protobuf.message import DecodeError

from openenv_grpc.errors import InvalidRequestError, OpenEnvError, ProtocolViolationError
from openenv_grpc.operations import Kind, Operation
from openenv_grpc.sessions import QueuePlace, Resume, Wait
from openenv_grpc.stream.counting import check_count
from openenv_grpc.v1 import session_pb2
from openenv_grpc.wire.durations import read_duration
from openenv_grpc.wire.operations import ConnectCodec

_KINDS = {
    "open": Kind.OPEN,
    "step": Kind.STEP,
    "reset_episode": Kind.RESET,
    "get_state": Kind.STATE,
    "evaluate": Kind.EVALUATE,
    "snapshot": Kind.SNAPSHOT,
    "close": Kind.CLOSE,
    "list_tools": Kind.LIST_TOOLS,
    "call_tool": Kind.CALL_TOOL,
}
SUBMITTED = frozenset(_KINDS) - {"open"}
"""Arms of what an open session does. The others are the stream's own affair."""

_STEP = Kind.STEP  # an enumeration's members are slow to look up
_CODEC = ConnectCodec()
_SHORT_BYTES = 256
"""Up to which size a content stands for itself among digests."""

RESUME_KEY_LENGTHS = range(22, 65)
"""How many characters a `resume_key` may have."""


def parse_request(data: bytes, max_operations: int) -> session_pb2.ConnectRequest:
    """Parses a message of a stream.

    Raises:
        ProtocolViolationError: it is none.
        MessageTooLargeError: it has more operations than that.
    """
    check_count(data, max_operations)
    try:
        return session_pb2.ConnectRequest.FromString(data)
    except DecodeError as error:
        raise ProtocolViolationError(
            "a message of the stream is no ConnectRequest; the stream ends here"
        ) from error


def read_operation(message: session_pb2.Operation, arm: str) -> Operation:
    """Makes an operation of a message whose arm is known. Raises `InvalidRequestError`."""
    number = message.request_id
    if number < 0:
        raise InvalidRequestError("a request_id is at least 0")
    timeout_s = None
    if message.HasField("timeout"):
        timeout_s = read_duration(message.timeout, what="timeout")
    if arm == "step":
        step = message.step
        action = step.action
        text = action.json
        if text and not action.attachments and not step.HasField("options"):
            # It stands for the whole, and if it is short for its digest: no other one is a text.
            told = text if len(text) <= _SHORT_BYTES else digest(arm, text.encode())
            return Operation(_STEP, _CODEC, text, number, told, timeout_s)
    payload = getattr(message, arm)  # the arm that is set
    content = payload.SerializeToString() if number else b""
    return Operation(_KINDS[arm], _CODEC, payload, number, digest(arm, content), timeout_s)


def digest(arm: str, content: bytes) -> bytes:
    """Tells contents apart; short ones stand for themselves, which is cheaper."""
    if len(content) > _SHORT_BYTES:
        content = hashlib.blake2b(content, digest_size=16).digest()
    return arm.encode() + b"\0" + content


def read_open(
    message: session_pb2.Operation, tell: Callable[[QueuePlace], None]
) -> tuple[Operation, Resume | None, Wait]:
    """Makes an operation of an `open`; tells how its session outlives its stream, and how it waits.

    `tell` is for those who asked for progress.

    Raises:
        InvalidRequestError: it makes no sense.
    """
    try:
        resume = read_resume(message.open)
        wait = read_wait(message.open, tell)
        return read_operation(message, "open"), resume, wait
    except OpenEnvError as error:
        error.session_lost = True  # it was not opened
        raise


def read_resume(message: session_pb2.Open) -> Resume | None:
    """Reads how a session outlives its stream. Raises `InvalidRequestError`."""
    key, has_window = message.resume_key, message.HasField("resume_window")
    if not key and not has_window:
        return None
    if not key or not has_window:
        raise InvalidRequestError("resume_window and resume_key go together; send both or none")
    if len(key) not in RESUME_KEY_LENGTHS:
        raise InvalidRequestError(
            f"a resume_key is a secret of {RESUME_KEY_LENGTHS.start} to "
            f"{RESUME_KEY_LENGTHS.stop - 1} characters, not of {len(key)}"
        )
    window_s = message.resume_window.ToNanoseconds() / 1e9
    if window_s <= 0:
        raise InvalidRequestError(
            "a resume_window is longer than 0; leave it and the resume_key out for none"
        )
    return Resume(key=key, window_s=window_s)


def read_wait(message: session_pb2.Open, tell: Callable[[QueuePlace], None]) -> Wait:
    """Reads how an `open` waits for a slot; `tell` is for those who asked for progress.

    Raises:
        InvalidRequestError: it makes no sense.
    """
    if bool(message.group) != (message.group_size > 0) or message.group_size < 0:
        raise InvalidRequestError(
            "group and a group_size of at least 1 go together; send both or none"
        )
    timeout_s = None
    if message.HasField("queue_timeout"):
        timeout_s = read_duration(message.queue_timeout, what="queue_timeout", least_s=0)
    return Wait(
        timeout_s=timeout_s,
        group=message.group,
        group_size=message.group_size or 1,
        tell=tell if message.progress else None,
    )
