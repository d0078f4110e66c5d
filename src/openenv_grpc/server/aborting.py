"""Errors as the end of an RPC: a gRPC status with our `Error` as its detail."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import grpc

from openenv_grpc.errors import Effect, InternalError, OpenEnvError
from openenv_grpc.events import log_event
from openenv_grpc.wire import status

logger = logging.getLogger(__name__)

Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]

DETAILS_KEY = "grpc-status-details-bin"


@asynccontextmanager
async def failures_as_status(context: Context) -> AsyncIterator[None]:
    """Ends the RPC with a status if the block raises."""
    try:
        yield
        return
    except OpenEnvError as error:
        failure = error
    except Exception as error:  # a defect of ours; grpc would send its text to the client
        log_event(logger, logging.ERROR, "call failed", error=error, peer=context.peer())
        failure = InternalError("the server failed; its log tells how", effect=Effect.UNKNOWN)
    await context.abort(
        grpc.StatusCode[status.GRPC_CODES[failure.reason]],
        status.status_message(failure),
        ((DETAILS_KEY, status.encode_status(failure)),),
    )
