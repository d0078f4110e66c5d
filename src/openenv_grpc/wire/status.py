"""Errors to `Error` messages and gRPC statuses, and back."""

from __future__ import annotations

from collections.abc import Mapping

from google.protobuf import any_pb2
from google.protobuf.message import DecodeError
from google.rpc import status_pb2

from openenv_grpc.errors import ERROR_TYPES, Effect, OpenEnvError, Reason, Violation
from openenv_grpc.v1 import error_pb2
from openenv_grpc.wire.durations import fill_duration

MAX_TEXT_BYTES = 16 * 2**10
"""Where the texts of an error are cut, so that one always fits into a message."""
MAX_VIOLATIONS = 100
_MAX_PLACE_BYTES = 1024

_STATUS_TEXT_BYTES = 600
_STATUS_DETAIL_BYTES = 2800
_LONG_FACT = 200
# A status travels in trailing metadata, of which clients take 8 KiB by default: the text thrice,
# once percent-encoded, and the details in base64.

GRPC_CODES: Mapping[Reason, str] = {
    Reason.INVALID_REQUEST: "INVALID_ARGUMENT",
    Reason.INVALID_ACTION: "INVALID_ARGUMENT",
    Reason.MESSAGE_TOO_LARGE: "RESOURCE_EXHAUSTED",
    Reason.OUTCOME_TOO_LARGE: "RESOURCE_EXHAUSTED",
    Reason.UNSERIALIZABLE_RESULT: "ABORTED",
    Reason.ENVIRONMENT_NOT_FOUND: "NOT_FOUND",
    Reason.CONSTRUCTION_FAILED: "ABORTED",
    Reason.ENVIRONMENT_FAILED: "ABORTED",
    Reason.ENVIRONMENT_CRASHED: "ABORTED",
    Reason.EPISODE_NOT_STARTED: "FAILED_PRECONDITION",
    Reason.EPISODE_OVER: "FAILED_PRECONDITION",
    Reason.CAPACITY_REACHED: "RESOURCE_EXHAUSTED",
    Reason.SESSION_NOT_FOUND: "NOT_FOUND",
    Reason.SESSION_CLOSED: "NOT_FOUND",
    Reason.SESSION_EXPIRED: "NOT_FOUND",
    Reason.SESSION_TAKEN_OVER: "FAILED_PRECONDITION",
    Reason.OUT_OF_ORDER: "FAILED_PRECONDITION",
    Reason.REQUEST_CONFLICT: "FAILED_PRECONDITION",
    Reason.OUTCOME_FORGOTTEN: "FAILED_PRECONDITION",
    Reason.TOO_MANY_OPERATIONS: "RESOURCE_EXHAUSTED",
    Reason.DEADLINE_EXCEEDED: "DEADLINE_EXCEEDED",
    Reason.CANCELLED: "CANCELLED",
    Reason.DRAINING: "UNAVAILABLE",
    Reason.UNAVAILABLE: "UNAVAILABLE",
    Reason.NOT_SUPPORTED: "UNIMPLEMENTED",
    Reason.MODE_FORBIDS: "FAILED_PRECONDITION",
    Reason.UNAUTHENTICATED: "UNAUTHENTICATED",
    Reason.PERMISSION_DENIED: "PERMISSION_DENIED",
    Reason.TOOL_NOT_FOUND: "NOT_FOUND",
    Reason.INVALID_ARGUMENTS: "INVALID_ARGUMENT",
    Reason.TASK_NOT_FOUND: "NOT_FOUND",
    Reason.SNAPSHOT_NOT_FOUND: "NOT_FOUND",
    Reason.PROTOCOL_VIOLATION: "INVALID_ARGUMENT",
    Reason.INTERNAL: "INTERNAL",
    Reason.MISSING_DEPENDENCY: "INTERNAL",
    Reason.RESOURCE_NOT_FOUND: "NOT_FOUND",
    Reason.CLIENT_CAPABILITY_MISSING: "FAILED_PRECONDITION",
}
"""Name of the gRPC code for each reason."""

_CODE_NUMBERS = {
    "CANCELLED": 1,
    "INVALID_ARGUMENT": 3,
    "DEADLINE_EXCEEDED": 4,
    "NOT_FOUND": 5,
    "PERMISSION_DENIED": 7,
    "RESOURCE_EXHAUSTED": 8,
    "FAILED_PRECONDITION": 9,
    "ABORTED": 10,
    "UNIMPLEMENTED": 12,
    "INTERNAL": 13,
    "UNAVAILABLE": 14,
    "UNAUTHENTICATED": 16,
}

_REASONS: dict[int, Reason] = {reason.value: reason for reason in Reason}
_UNKNOWN_REASON = Reason.INTERNAL


def encode_error(message: error_pb2.Error, error: OpenEnvError) -> None:
    """Fills an `Error` in place. Never raises, and cuts what is too long."""
    _fill_core(message, error, text_bytes=MAX_TEXT_BYTES)
    for violation in error.violations[:MAX_VIOLATIONS]:
        message.violations.add(
            path=_text(violation.path, _MAX_PLACE_BYTES),
            type=_text(violation.type, _MAX_PLACE_BYTES),
            message=_text(violation.message, _MAX_PLACE_BYTES),
        )
    for name, fact in error.metadata.items():
        message.metadata[_text(name, _MAX_PLACE_BYTES)] = _text(fact, MAX_TEXT_BYTES)


def encode_brief_error(message: error_pb2.Error, error: OpenEnvError) -> None:
    """Fills an `Error` with what a client must know, in less than a kilobyte."""
    _fill_core(message, error, text_bytes=_STATUS_TEXT_BYTES)


def _fill_core(message: error_pb2.Error, error: OpenEnvError, *, text_bytes: int) -> None:
    message.reason = error_pb2.Reason.ValueType(error.reason)
    message.message = _text(error.message, text_bytes)
    message.effect = error_pb2.Effect.ValueType(error.effect)
    message.session_lost = error.session_lost
    if error.retry_delay_s is not None:
        fill_duration(message.retry_delay, error.retry_delay_s)


def _text(text: str, limit_bytes: int) -> str:
    """Returns a text that a proto takes: no lone surrogates, and not longer than that."""
    encoded = text.encode("utf-8", "replace")
    if len(encoded) > limit_bytes:
        return encoded[: limit_bytes - 3].decode("utf-8", "ignore") + "…"
    return encoded.decode()


def decode_error(message: error_pb2.Error) -> OpenEnvError:
    """Returns the error. An unknown reason, from a newer server, becomes `INTERNAL`."""
    reason = _REASONS.get(message.reason, _UNKNOWN_REASON)
    delay = message.retry_delay.ToNanoseconds() / 1e9 if message.HasField("retry_delay") else None
    return ERROR_TYPES[reason](
        message.message,
        effect=Effect(message.effect) if message.effect in (1, 2, 3) else Effect.UNKNOWN,
        session_lost=message.session_lost,
        retry_delay_s=delay,
        violations=[
            Violation(path=entry.path, type=entry.type, message=entry.message)
            for entry in message.violations
        ],
        metadata=message.metadata,
    )


def status_message(error: OpenEnvError) -> str:
    """Returns the message of the status that ends an RPC."""
    return _text(error.message, _STATUS_TEXT_BYTES)


def encode_status(error: OpenEnvError) -> bytes:
    """Returns a `google.rpc.Status` with the error as its detail: `grpc-status-details-bin`.

    Leaves out facts and violations that would not fit into trailing metadata.
    """
    detail = error_pb2.Error()
    encode_error(detail, error)
    detail.message = status_message(error)
    while detail.ByteSize() > _STATUS_DETAIL_BYTES:
        _drop_something(detail)
    packed = any_pb2.Any()
    packed.Pack(detail)
    content: bytes = status_pb2.Status(
        code=_CODE_NUMBERS[GRPC_CODES[error.reason]], message=detail.message, details=[packed]
    ).SerializeToString()
    return content


def _drop_something(detail: error_pb2.Error) -> None:
    """Drops a long fact, else the last violation, else any fact."""
    facts = detail.metadata
    longest = max(facts, key=lambda name: len(facts[name]), default="")
    if detail.violations and len(facts.get(longest, "")) < _LONG_FACT:
        del detail.violations[-1]
    else:
        del facts[longest]


def decode_status(details: bytes) -> OpenEnvError | None:
    """Returns the error in a `google.rpc.Status`; `None` if it has none of ours."""
    try:
        status = status_pb2.Status.FromString(details)
        for packed in status.details:
            message = error_pb2.Error()
            if packed.Unpack(message):
                return decode_error(message)
    except DecodeError:
        return None
    return None
