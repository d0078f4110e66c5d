"""`ToolService`: what an agent may do in a session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from weakref import WeakKeyDictionary

import grpc

from openenv_grpc.access import Access, tools_session
from openenv_grpc.errors import InvalidRequestError
from openenv_grpc.operations import Kind, Operation, Reply
from openenv_grpc.server.aborting import Context
from openenv_grpc.server.methods import raw_method, raw_streaming_method, time_for, token_of
from openenv_grpc.server.recorded_calls import RecordedCalls
from openenv_grpc.sessions import SessionHost, SessionPort, ask
from openenv_grpc.stream import digest
from openenv_grpc.v1 import tool_pb2
from openenv_grpc.wire.tool_messages import ToolCodec

SERVICE = "openenv_grpc.v1.ToolService"

MAX_CALL_ID = 64

_CODEC = ToolCodec()


class ToolMethods:
    """Lists and calls tools.

    A call with a `call_id` runs once, however often it is sent, and to its end even if its client
    leaves: the client may ask again. One without is cancelled with its RPC.
    """

    def __init__(self, host: SessionHost, access: Access) -> None:
        self._host = host
        self._access = access
        self._recorded: WeakKeyDictionary[SessionPort, RecordedCalls] = WeakKeyDictionary()

    def handlers(self) -> grpc.GenericRpcHandler:
        """Makes the service. Responses are bytes, written on the session's thread."""
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "ListTools": raw_method(tool_pb2.ListToolsRequest, self.list_tools),
                "CallTool": raw_streaming_method(tool_pb2.CallToolRequest, self.call_tool),
            },
        )

    async def list_tools(self, request: tool_pb2.ListToolsRequest, context: Context) -> bytes:
        """Lists the tools of a session."""
        session = self._session(request.session_id, context)
        operation = Operation(kind=Kind.LIST_TOOLS, codec=_CODEC, timeout_s=time_for(context))
        return (await ask(session, operation)).written()

    async def call_tool(
        self, request: tool_pb2.CallToolRequest, context: Context
    ) -> AsyncIterator[bytes]:
        """Calls a tool and answers with its result."""
        session = self._session(request.session_id, context)
        operation = Operation(
            kind=Kind.CALL_TOOL, codec=_CODEC, payload=request, timeout_s=time_for(context)
        )
        if not request.call_id:
            reply = await ask(session, operation)
        elif len(request.call_id) > MAX_CALL_ID:
            raise InvalidRequestError(f"a call_id has at most {MAX_CALL_ID} characters")
        else:
            reply = await self._once(session, operation, request)
        yield reply.written()

    def _session(self, session_id: str, context: Context) -> SessionPort:
        principal = self._access.principal(token_of(context.invocation_metadata()))
        return self._host.find(tools_session(principal, session_id))

    def _once(
        self, session: SessionPort, operation: Operation, request: tool_pb2.CallToolRequest
    ) -> asyncio.Future[Reply]:
        calls = self._recorded.get(session)
        if calls is None:
            calls = self._recorded[session] = RecordedCalls()
        content = digest("call_tool", request.SerializeToString(deterministic=True))
        return calls.once(
            request.call_id, content, lambda deliver: session.submit(operation, deliver)
        )
