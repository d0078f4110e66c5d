"""`EpisodeService`: sessions by unary calls, held by leases."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import Any

import grpc

from openenv_grpc.access import Access
from openenv_grpc.errors import (
    InvalidRequestError,
    OperationCancelledError,
    SessionNotFoundError,
)
from openenv_grpc.operations import Kind, Operation, Reply
from openenv_grpc.server.aborting import Context
from openenv_grpc.server.methods import raw_method, time_for
from openenv_grpc.sessions import SessionHost, SessionPort, Wait, ask
from openenv_grpc.stream import digest
from openenv_grpc.v1 import episode_pb2
from openenv_grpc.wire.durations import read_duration
from openenv_grpc.wire.operations import UnaryCodec

SERVICE = "openenv_grpc.v1.EpisodeService"

_CODEC = UnaryCodec()

_METHODS: dict[str, tuple[type[Any], Kind]] = {
    "Reset": (episode_pb2.ResetRequest, Kind.RESET),
    "Step": (episode_pb2.StepRequest, Kind.STEP),
    "GetState": (episode_pb2.GetStateRequest, Kind.STATE),
    "Evaluate": (episode_pb2.EvaluateRequest, Kind.EVALUATE),
    "Close": (episode_pb2.CloseRequest, Kind.CLOSE),
}


def handlers(host: SessionHost, access: Access) -> grpc.GenericRpcHandler:
    """Makes the service. Responses are bytes, written on the session's thread."""
    methods = {"Open": raw_method(episode_pb2.OpenRequest, partial(_open, host, access))}
    for name, (request_type, kind) in _METHODS.items():
        methods[name] = raw_method(request_type, partial(_ask, host, kind))
    return grpc.method_handlers_generic_handler(SERVICE, methods)


async def _open(
    host: SessionHost, access: Access, request: episode_pb2.OpenRequest, context: Context
) -> bytes:
    idle_timeout_s = None
    if request.HasField("idle_timeout"):
        idle_timeout_s = read_duration(request.idle_timeout, what="idle_timeout")
    queue_timeout_s = None
    if request.HasField("queue_timeout"):
        queue_timeout_s = read_duration(request.queue_timeout, what="queue_timeout", least_s=0)
    answered: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

    def deliver(reply: Reply) -> None:
        if not answered.done():
            answered.set_result(reply)

    session = host.lease(
        request.environment,
        peer=context.peer(),
        idle_timeout_s=idle_timeout_s,
        operation=Operation(
            kind=Kind.OPEN,
            codec=_CODEC,
            payload=request,
            request_id=0,
            timeout_s=time_for(context),
            context=access.grant_of(host) if request.agent_access else None,
        ),
        deliver=deliver,
        wait=Wait(timeout_s=queue_timeout_s),
    )
    try:
        return (await answered).written()
    except asyncio.CancelledError:
        _abandon(host, session)
        raise


def _abandon(host: SessionHost, session: SessionPort) -> None:
    """Ends a session of which its client will never know."""
    with suppress(SessionNotFoundError):
        host.end_session(session.id, OperationCancelledError("its client left before it was open"))


async def _ask(host: SessionHost, kind: Kind, request: Any, context: Context) -> bytes:
    if request.request_id < 0:
        raise InvalidRequestError("a request_id is at least 0")
    session = host.find(request.session_id)
    operation = Operation(
        kind=kind,
        codec=_CODEC,
        payload=request,
        request_id=request.request_id,
        digest=digest(kind.value, request.SerializeToString()) if request.request_id else b"",
        timeout_s=time_for(context),
    )
    return (await ask(session, operation)).written()
