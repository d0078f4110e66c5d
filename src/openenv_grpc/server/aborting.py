"""Errors as the end of an RPC: a gRPC status with our `Error` as its detail."""

from __future__ import annotations

from typing import Any, NoReturn, TypeAlias

import grpc

from openenv_grpc.errors import OpenEnvError
from openenv_grpc.wire import status

Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]

DETAILS_KEY = "grpc-status-details-bin"


async def abort(context: Context, error: OpenEnvError) -> NoReturn:
    """Ends the RPC with an error."""
    await context.abort(
        grpc.StatusCode[status.GRPC_CODES[error.reason]],
        error.message,
        ((DETAILS_KEY, status.encode_status(error)),),
    )
