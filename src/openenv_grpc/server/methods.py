"""Methods of a service: requests parsed, failures as statuses, responses written."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing
from typing import TypeAlias, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from openenv_grpc.access import bearer_token
from openenv_grpc.errors import InvalidRequestError
from openenv_grpc.server.aborting import Context, failures_as_status

RequestT = TypeVar("RequestT", bound=Message)

ANSWER_S = 0.2
"""Time kept for telling a client in time that its own has passed, or a tenth of a short one."""

Handler: TypeAlias = "grpc.RpcMethodHandler[bytes, bytes]"

# grpc gets no deserializers: it would answer what is malformed with `UNKNOWN` and words of its own.


def raw_method(
    request_type: type[RequestT], method: Callable[[RequestT, Context], Awaitable[bytes]]
) -> Handler:
    """Makes a unary method whose response is written already."""

    async def call(data: bytes, context: Context) -> bytes:
        async with failures_as_status(context):
            return await method(_parse(request_type, data), context)
        return b""  # the block has ended the call

    return grpc.unary_unary_rpc_method_handler(call)


def method(
    request_type: type[RequestT], method: Callable[[RequestT, Context], Awaitable[Message]]
) -> Handler:
    """Makes a unary method."""

    async def call(request: RequestT, context: Context) -> bytes:
        return (await method(request, context)).SerializeToString()

    return raw_method(request_type, call)


def raw_streaming_method(
    request_type: type[RequestT],
    method: Callable[[RequestT, Context], AsyncGenerator[bytes, None]],
) -> Handler:
    """Makes a method that answers with a stream of messages which are written already."""

    async def call(data: bytes, context: Context) -> AsyncIterator[bytes]:
        async with (
            failures_as_status(context),
            aclosing(method(_parse(request_type, data), context)) as responses,
        ):
            async for response in responses:
                yield response

    return grpc.unary_stream_rpc_method_handler(call)


def token_of(metadata: Iterable[tuple[str, str | bytes]] | None) -> str | None:
    """Returns the bearer token in an RPC's metadata; `None` if nothing is there for one."""
    for key, value in metadata or ():
        if key == "authorization" and isinstance(value, str):
            return bearer_token(value)
    return None


def time_for(context: Context) -> float | None:
    """Returns how long an operation may take if its client is to hear of it before it hangs up."""
    remaining_s = context.time_remaining()
    return None if remaining_s is None else remaining_s - min(ANSWER_S, remaining_s / 10)


def _parse(request_type: type[RequestT], data: bytes) -> RequestT:
    try:
        return request_type.FromString(data)
    except DecodeError as error:
        name = request_type.DESCRIPTOR.name
        raise InvalidRequestError(f"the message is no {name}; mend the client") from error
