"""`EpisodeService`: sessions by unary calls, held by leases."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import grpc

from openenv_grpc.errors import InvalidRequestError, NotSupportedError, OpenEnvError
from openenv_grpc.server.aborting import Context, abort
from openenv_grpc.sessions import Kind, Operation, Reply, SessionHost, ask
from openenv_grpc.stream import digest
from openenv_grpc.v1 import episode_pb2
from openenv_grpc.wire.operations import UnaryCodec

SERVICE = "openenv_grpc.v1.EpisodeService"

_CODEC = UnaryCodec()

_REQUESTS: Mapping[str, tuple[type[Any], Kind]] = {
    "Reset": (episode_pb2.ResetRequest, Kind.RESET),
    "Step": (episode_pb2.StepRequest, Kind.STEP),
    "GetState": (episode_pb2.GetStateRequest, Kind.STATE),
    "Evaluate": (episode_pb2.EvaluateRequest, Kind.EVALUATE),
    "Close": (episode_pb2.CloseRequest, Kind.CLOSE),
}


def handlers(host: SessionHost) -> grpc.GenericRpcHandler:
    """Makes the service. Responses are bytes, written on the session's thread."""
    methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "Open": grpc.unary_unary_rpc_method_handler(
            _opener(host), request_deserializer=episode_pb2.OpenRequest.FromString
        )
    }
    for name, (request_type, kind) in _REQUESTS.items():
        methods[name] = grpc.unary_unary_rpc_method_handler(
            _asker(host, kind), request_deserializer=request_type.FromString
        )
    return grpc.method_handlers_generic_handler(SERVICE, methods)


def _opener(
    host: SessionHost,
) -> Callable[[episode_pb2.OpenRequest, Context], Awaitable[bytes]]:
    async def open_session(request: episode_pb2.OpenRequest, context: Context) -> bytes:
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

        def deliver(answer: Reply) -> None:
            if not reply.done():
                reply.set_result(answer)

        try:
            if request.agent_access:
                raise NotSupportedError("this server does not offer agent_access; open without it")
            session = host.lease(
                request.environment,
                peer=context.peer(),
                idle_timeout_s=_idle_timeout(request),
                operation=Operation(
                    kind=Kind.OPEN,
                    codec=_CODEC,
                    payload=request,
                    request_id=0,
                    timeout_s=context.time_remaining(),
                ),
                deliver=deliver,
            )
            try:
                answer = await reply
            except asyncio.CancelledError:
                host.end_session(session.id, NotSupportedError("its client has left"))
                raise
            if answer.error is not None:
                raise answer.error
        except OpenEnvError as error:
            await abort(context, error)
        return answer.content

    return open_session


def _idle_timeout(request: episode_pb2.OpenRequest) -> float | None:
    if not request.HasField("idle_timeout"):
        return None
    seconds = request.idle_timeout.ToNanoseconds() / 1e9
    if seconds <= 0:
        raise InvalidRequestError("an idle_timeout is longer than 0")
    return seconds


def _asker(host: SessionHost, kind: Kind) -> Callable[[Any, Context], Awaitable[bytes]]:
    async def ask_session(request: Any, context: Context) -> bytes:
        try:
            if request.request_id < 0:
                raise InvalidRequestError("a request_id is at least 0")
            session = host.find(request.session_id)
            operation = Operation(
                kind=kind,
                codec=_CODEC,
                payload=request,
                request_id=request.request_id,
                digest=digest(kind.value, request.SerializeToString())
                if request.request_id
                else b"",
                timeout_s=context.time_remaining(),
            )
            reply = await ask(session, operation)
            if reply.error is not None:
                raise reply.error
        except OpenEnvError as error:
            await abort(context, error)
        return reply.content

    return ask_session
