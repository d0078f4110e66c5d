"""What a client asks for on a stream, checked and made an operation of a session."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from openenv_grpc.errors import InvalidRequestError, NotSupportedError
from openenv_grpc.sessions import Kind, Operation
from openenv_grpc.v1 import session_pb2
from openenv_grpc.wire.durations import read_duration
from openenv_grpc.wire.operations import ConnectCodec

_KINDS = {
    "open": Kind.OPEN,
    "step": Kind.STEP,
    "reset_episode": Kind.RESET,
    "get_state": Kind.STATE,
    "evaluate": Kind.EVALUATE,
    "close": Kind.CLOSE,
}
_CODEC = ConnectCodec()


def read_operation(message: session_pb2.Operation, arm: str) -> Operation:
    """Makes an operation of a message whose arm is known. Raises `InvalidRequestError`."""
    if message.request_id < 0:
        raise InvalidRequestError("a request_id is at least 0")
    payload = getattr(message, arm)  # the arm that is set
    timeout_s = None
    if message.HasField("timeout"):
        timeout_s = read_duration(message.timeout, what="timeout")
    return Operation(
        kind=_KINDS[arm],
        codec=_CODEC,
        payload=payload,
        request_id=message.request_id,
        digest=digest(arm, payload.SerializeToString()) if message.request_id else b"",
        timeout_s=timeout_s,
    )


def digest(arm: str, content: bytes) -> bytes:
    """Tells contents apart; short ones stand for themselves, which is cheaper."""
    if len(content) > 256:
        content = hashlib.blake2b(content, digest_size=16).digest()
    return arm.encode() + b"\0" + content


_NOT_OFFERED: dict[str, Callable[[session_pb2.Open], bool]] = {
    "resume_window": lambda message: message.HasField("resume_window"),
    "resume_key": lambda message: bool(message.resume_key),
    "group": lambda message: bool(message.group),
    "group_size": lambda message: message.group_size != 0,
    "queue_timeout": lambda message: message.HasField("queue_timeout"),
    "snapshot_id": lambda message: bool(message.snapshot_id),
    "progress": lambda message: message.progress,
    "events": lambda message: message.events,
    "agent_access": lambda message: message.agent_access,
}


def refuse_what_is_not_offered(message: session_pb2.Open) -> None:
    """Raises `NotSupportedError` for what the server's features do not name."""
    for name, asked in _NOT_OFFERED.items():
        if asked(message):
            raise NotSupportedError(
                f"this server does not offer {name}; open without it", session_lost=True
            )
