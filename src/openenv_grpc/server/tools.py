"""`ToolService`: what an agent may do in a session."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from weakref import WeakKeyDictionary

import grpc

from openenv_grpc.access import Access, Area, tools_session
from openenv_grpc.errors import InvalidRequestError
from openenv_grpc.hearing import hear
from openenv_grpc.operations import Deliver, Kind, Listener, Operation, Reply
from openenv_grpc.server.aborting import Context
from openenv_grpc.server.methods import raw_method, raw_streaming_method, time_for, token_of
from openenv_grpc.server.recorded_calls import RecordedCalls
from openenv_grpc.sessions import SessionHost, SessionPort, ask
from openenv_grpc.stream import digest
from openenv_grpc.tools import ToolNotice
from openenv_grpc.v1 import tool_pb2
from openenv_grpc.wire.tool_messages import ToolCodec, write_notice

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
    ) -> AsyncGenerator[bytes, None]:
        """Calls a tool; answers with what it tells, and with its result."""
        session = self._session(request.session_id, context)
        operation = Operation(
            kind=Kind.CALL_TOOL, codec=_CODEC, payload=request, timeout_s=time_for(context)
        )
        began = time.monotonic()
        heard = (
            self._once(session, operation, request) if request.call_id else hear(session, operation)
        )
        async with aclosing(heard):
            async for told in heard:
                if isinstance(told, Reply):
                    yield told.written()
                else:
                    yield write_notice(told, elapsed_s=time.monotonic() - began)

    def _session(self, session_id: str, context: Context) -> SessionPort:
        principal = self._access.admit(Area.TOOLS, token_of(context.invocation_metadata()))
        return self._host.find(tools_session(principal, session_id))

    async def _once(
        self, session: SessionPort, operation: Operation, request: tool_pb2.CallToolRequest
    ) -> AsyncGenerator[ToolNotice | Reply, None]:
        if len(request.call_id) > MAX_CALL_ID:
            raise InvalidRequestError(f"a call_id has at most {MAX_CALL_ID} characters")
        calls = self._recorded.get(session)
        if calls is None:
            calls = self._recorded[session] = RecordedCalls()

        def submit(listener: Listener, deliver: Deliver) -> None:
            operation.listener = listener
            session.submit(operation, deliver)

        content = digest("call_tool", request.SerializeToString(deterministic=True))
        async with calls.once(request.call_id, content, submit) as hearing:
            async for told in hearing.heard():
                yield told
