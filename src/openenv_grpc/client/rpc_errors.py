"""gRPC's errors as ours: by the detail that our servers send, else by the status code."""

from __future__ import annotations

import grpc.aio

from openenv_grpc.errors import (
    DeadlineExceededError,
    Effect,
    InternalError,
    InvalidRequestError,
    MessageTooLargeError,
    NotSupportedError,
    OpenEnvError,
    PermissionDeniedError,
    SessionNotFoundError,
    UnauthenticatedError,
    UnavailableError,
)
from openenv_grpc.wire import status

_DETAILS = "grpc-status-details-bin"

_CUT_WHILE_SENDING = "Internal error from Core"
"""What grpc.aio makes of a connection that is lost while it writes."""

_BY_CODE: dict[grpc.StatusCode, type[OpenEnvError]] = {
    grpc.StatusCode.UNAVAILABLE: UnavailableError,
    grpc.StatusCode.CANCELLED: UnavailableError,  # we do not cancel what we still wait for
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceededError,
    grpc.StatusCode.INVALID_ARGUMENT: InvalidRequestError,
    grpc.StatusCode.NOT_FOUND: SessionNotFoundError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: MessageTooLargeError,
    grpc.StatusCode.UNIMPLEMENTED: NotSupportedError,
    grpc.StatusCode.UNAUTHENTICATED: UnauthenticatedError,
    grpc.StatusCode.PERMISSION_DENIED: PermissionDeniedError,
}


def error_of(error: grpc.aio.AioRpcError, *, target: str) -> OpenEnvError:
    """Turns the end of an RPC into an error of ours."""
    detailed = _detailed(error)
    if detailed is not None:
        return detailed
    kind = _BY_CODE.get(error.code(), InternalError)
    if error.code() is grpc.StatusCode.INTERNAL and error.details() == _CUT_WHILE_SENDING:
        kind = UnavailableError
    text = error.details() or error.code().name
    effect = (
        Effect.NONE if kind in (UnauthenticatedError, PermissionDeniedError) else Effect.UNKNOWN
    )
    if kind is UnavailableError:
        text = f"{target} cannot be reached, or went away: {text}"
    elif kind is NotSupportedError:
        text = f"{target} does not speak openenv_grpc.v1: {text}"
    return kind(text, effect=effect, metadata={"grpc_code": error.code().name})


def _detailed(error: grpc.aio.AioRpcError) -> OpenEnvError | None:
    for key, value in error.trailing_metadata() or ():
        if key == _DETAILS and isinstance(value, bytes):
            return status.decode_status(value)
    return None
