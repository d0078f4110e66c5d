"""`ToolService`: what an agent may do in a session."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator

from openenv_grpc.errors import InvalidRequestError, OpenEnvError, RequestConflictError
from openenv_grpc.server.aborting import Context, abort
from openenv_grpc.sessions import Kind, Operation, Reply, SessionHost, ask
from openenv_grpc.stream import digest
from openenv_grpc.v1 import tool_pb2, tool_pb2_grpc
from openenv_grpc.wire.tool_messages import ToolCodec

MAX_CALL_ID = 64
MAX_RECORDED_CALLS = 1024
"""How many calls that can be repeated the server remembers, over all sessions."""

_CODEC = ToolCodec()


class ToolServicer(tool_pb2_grpc.ToolServiceServicer):
    """Lists and calls tools. A call with a `call_id` runs once, however often it is sent."""

    def __init__(self, host: SessionHost) -> None:
        self._host = host
        self._calls: OrderedDict[tuple[str, str], tuple[bytes, asyncio.Task[Reply]]] = OrderedDict()

    async def ListTools(  # noqa: N802  # the name is the proto's
        self, request: tool_pb2.ListToolsRequest, context: Context
    ) -> tool_pb2.ListToolsResponse:
        """Lists the tools of a session."""
        try:
            session = self._host.find(request.session_id)
            operation = Operation(
                kind=Kind.LIST_TOOLS, codec=_CODEC, timeout_s=context.time_remaining()
            )
            reply = await ask(session, operation)
            if reply.error is not None:
                raise reply.error
        except OpenEnvError as error:
            await abort(context, error)
        return tool_pb2.ListToolsResponse.FromString(reply.content)

    async def CallTool(  # noqa: N802  # the name is the proto's
        self, request: tool_pb2.CallToolRequest, context: Context
    ) -> AsyncIterator[tool_pb2.CallToolResponse]:
        """Calls a tool and answers with its result."""
        try:
            reply = await self._call(request, context)
            if reply.error is not None:
                raise reply.error
        except OpenEnvError as error:
            await abort(context, error)
        yield tool_pb2.CallToolResponse.FromString(reply.content)

    async def _call(self, request: tool_pb2.CallToolRequest, context: Context) -> Reply:
        session = self._host.find(request.session_id)
        operation = Operation(
            kind=Kind.CALL_TOOL,
            codec=_CODEC,
            payload=request,
            timeout_s=context.time_remaining(),
        )
        if not request.call_id:
            return await ask(session, operation)
        if len(request.call_id) > MAX_CALL_ID:
            raise InvalidRequestError(f"a call_id has at most {MAX_CALL_ID} characters")
        key = (session.id, request.call_id)
        content = digest("call_tool", request.SerializeToString(deterministic=True))
        recorded = self._calls.get(key)
        if recorded is None:
            call = asyncio.create_task(ask(session, operation))
            self._remember(key, content, call)
        else:
            known, call = recorded
            if known != content:
                raise RequestConflictError(
                    f"the call_id {request.call_id!r} was used for another call; choose a new one"
                )
        return await asyncio.shield(call)

    def _remember(self, key: tuple[str, str], content: bytes, call: asyncio.Task[Reply]) -> None:
        self._calls[key] = (content, call)
        while len(self._calls) > MAX_RECORDED_CALLS:
            self._calls.popitem(last=False)
