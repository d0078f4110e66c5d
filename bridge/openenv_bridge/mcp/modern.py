"""MCP of 2026-07-28 over HTTP: each request stands for itself, and may name a session."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, aclosing, suppress

from aiohttp import web

from openenv_bridge.mcp import envelope, greeting, listening, messages, methods
from openenv_bridge.mcp.codec import (
    HANDLE,
    HANDLE_META,
    OBSERVATION_URI,
    Answering,
    error_code,
    tool_error,
    without_handle,
)
from openenv_bridge.mcp.conversations import (
    STATE,
    Caller,
    Conversation,
    Conversations,
    Source,
    answers_of,
)
from openenv_bridge.mcp.exchange import Answered, Told, Wanted, at_once, exchange, progress_token
from openenv_bridge.mcp.http_answers import HttpAnswer
from openenv_bridge.mcp.messages import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    PARSE_ERROR,
    SESSION_ERROR,
    SESSION_NOT_FOUND,
    UNSUPPORTED_VERSION,
    Call,
    McpError,
)
from openenv_bridge.mcp.mirrored import Mirrors, repeated
from openenv_bridge.mcp.offers import ASKING
from openenv_bridge.mcp.pushes import Pushes, Wishes
from openenv_bridge.mcp.sessions import McpSessions
from openenv_bridge.responses import json_response, peer_of
from openenv_grpc.access import Principal, tools_session
from openenv_grpc.environment_spec import EnvironmentSpec
from openenv_grpc.errors import OpenEnvError, SessionNotFoundError
from openenv_grpc.hearing import Interview, converse
from openenv_grpc.operations import Operation, ToolCall
from openenv_grpc.sessions import SessionHost, SessionPort
from openenv_grpc.types import JsonValue

Transient = AbstractAsyncContextManager[SessionPort]

_STATUS: Mapping[int, int] = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    MISSING_CAPABILITY: 400,
    UNSUPPORTED_VERSION: 400,
    METHOD_NOT_FOUND: 404,
    SESSION_NOT_FOUND: 404,
}


class Modern:
    """Answers clients of whom nothing is kept but the sessions that they name."""

    def __init__(self, host: SessionHost, sessions: McpSessions) -> None:
        self._host = host
        self._sessions = sessions
        self._conversations = Conversations(sessions.spawn)
        self._mirrors = Mirrors()

    async def post(
        self, request: web.Request, value: JsonValue, spec: EnvironmentSpec, principal: Principal
    ) -> web.StreamResponse:
        """Answers a message."""
        try:
            message = messages.read(value)
            if not isinstance(message, Call):
                envelope.check_version(request.headers.get(envelope.VERSION_HEADER, ""))
                return web.Response(status=202)
            envelope.check(message, request.headers)
            named = _named(request, message, principal)
            caller = Caller(principal, spec.name, named, repeated(request.headers))
            told = await self._told(request, message, spec, caller)
            return await HttpAnswer(request, status_of=_status).send(told)
        except McpError as refused:
            return json_response(refused.written(), status=_STATUS.get(refused.code, 200))

    async def _told(
        self, request: web.Request, call: Call, spec: EnvironmentSpec, caller: Caller
    ) -> Told:
        """Begins to do what a call asks for, in the session that it names, or goes on with it."""
        if call.method in envelope.NAMED_BY:
            answers_of(call)  # refused before anything is done
            if STATE in call.params:
                return self._conversations.resume(call, caller).leg(call, _wanted(call))
        named = caller.session_id
        first = self._sessions.first(named)
        answering = Answering(
            id=call.id, modern=True, handles=not named, observed=bool(first) or not named
        )
        match call.method:
            case "server/discover":
                description = await self._described(spec)
                found = greeting.discovered(
                    spec, description=description, first=first, handles=not named
                )
                return at_once(answering.result(found, caching=True))
            case "subscriptions/listen":
                return self._listening(call, self._claimed(call, named) if named else None)
            case "tools/call":
                return await self._call_tool(request, call, spec, caller)
            case "resources/read" if call.params.get("uri") == OBSERVATION_URI and not named:
                return await self._begin(answering, spec, peer_of(request))
        plan = methods.of_both_eras(call, answering, first=first)
        if isinstance(plan, bytes):
            return at_once(plan)
        if named:
            return self._exchange(call, caller, self._claimed(call, named), plan)
        return self._in_transient(call, caller, plan)

    async def _call_tool(
        self, request: web.Request, call: Call, spec: EnvironmentSpec, caller: Caller
    ) -> Told:
        named = caller.session_id
        tool, handle = methods.called_tool(call)
        tool = without_handle(tool)
        answering = Answering(id=call.id, modern=True)
        if named and handle not in ("", named):
            told = f"{HANDLE} names another session than that of these tools. Leave it out"
            return at_once(tool_error(answering, told))
        try:
            if not (named or handle):
                return await self._call_anew(request, call, spec, caller, tool)
            port = self._claimed(call, named) if named else self._sessions.claim(handle)
        except SessionNotFoundError as error:
            return at_once(tool_error(answering, f"{error.message}. Call without it to begin anew"))
        except OpenEnvError as error:
            raise McpError(SESSION_ERROR, error.message, call_id=call.id) from error
        await self._mirrors.check(call, port, tool, request.headers)
        return self._exchange(call, caller, port, methods.tool_operation(tool, answering))

    async def _call_anew(
        self,
        request: web.Request,
        call: Call,
        spec: EnvironmentSpec,
        caller: Caller,
        tool: ToolCall,
    ) -> Told:
        """Calls a tool in a session that begins with the call, unless there is no such tool."""
        session = await self._sessions.begin_unclaimed(spec, peer=peer_of(request))
        try:
            await self._mirrors.check(call, session.port, tool, request.headers)
        except McpError:
            await self._sessions.end(session)
            raise
        answering = Answering(id=call.id, modern=True, begun=session.port.id, first=session.first)

        async def told() -> Told:
            operation = methods.tool_operation(tool, answering)
            told = self._exchange(call, caller, session.port, operation)
            async with aclosing(told) as exchanged:
                async for each in exchanged:
                    if isinstance(each, Answered) and _status(each) != 200:
                        await self._sessions.end(session)
                    yield each

        return told()

    async def _begin(self, answering: Answering, spec: EnvironmentSpec, peer: str) -> Told:
        """Answers a read of the first observation: that of a session which begins with it."""
        try:
            session = await self._sessions.begin_unclaimed(spec, peer=peer)
        except OpenEnvError as error:
            raise McpError(SESSION_ERROR, error.message, call_id=answering.id) from error
        content = methods.observed(session.first)
        content["_meta"] = {HANDLE_META: session.port.id}
        return at_once(answering.result({"contents": [content]}, caching=True))

    def _claimed(self, call: Call, named: str) -> SessionPort:
        try:
            return self._sessions.claim(named)
        except SessionNotFoundError as error:
            raise McpError(SESSION_NOT_FOUND, error.message, call_id=call.id) from error

    def _in_transient(self, call: Call, caller: Caller, operation: Operation) -> Told:
        """Asks an environment that is built for this call alone, since no session is meant."""
        asks = _asks(call, operation)
        if asks is not None:
            source = _heard_in(self._host.transient(caller.environment), operation, asks)
            return self._converse(call, caller, source, is_alone=True)
        return _exchange_in(self._host.transient(caller.environment), operation, _wanted(call))

    def _exchange(
        self, call: Call, caller: Caller, port: SessionPort, operation: Operation
    ) -> Told:
        asks = _asks(call, operation)
        if asks is None:
            return exchange(port, operation, _wanted(call))
        return self._converse(call, caller, converse(port, operation, asks))

    def _converse(
        self, call: Call, caller: Caller, source: Source, *, is_alone: bool = False
    ) -> Told:
        conversation = Conversation(source, call, caller, self._conversations, is_alone=is_alone)
        return conversation.leg(call, _wanted(call))

    def _listening(self, call: Call, port: SessionPort | None) -> Told:
        """Tells of changes in a session; without one, nothing but that it listens."""
        wishes = Wishes(lists=(), uris=()) if port is None else listening.wishes(call)
        meta: dict[str, JsonValue] = {envelope.SUBSCRIPTION_META: call.id}
        pushes = Pushes(wishes, meta=meta)
        return listening.told(call, wishes, pushes, self._sessions.listening(port, pushes))

    async def _described(self, spec: EnvironmentSpec) -> str:
        with suppress(OpenEnvError):  # what fails to be built tells nothing of itself
            return (await self._host.metadata(spec.name)).description
        return ""


def _named(request: web.Request, call: Call, principal: Principal) -> str:
    """Returns the session that a call means; empty text if nothing says which."""
    named = call.meta.get(HANDLE_META) or request.query.get(envelope.SESSION_PARAMETER, "")
    return tools_session(principal, str(named))


def _wanted(call: Call) -> Wanted:
    return Wanted(progress_token=progress_token(call), level=envelope.log_level(call))


def _asks(call: Call, operation: Operation) -> Interview | None:
    """Returns how tools ask the client of a call; `None` if there is nothing to be asked."""
    offers = envelope.offered(call) if operation.kind in ASKING else frozenset()
    return Interview(offers) if offers else None


async def _exchange_in(entered: Transient, operation: Operation, wanted: Wanted) -> Told:
    async with entered as port, aclosing(exchange(port, operation, wanted)) as exchanged:
        async for told in exchanged:
            yield told


async def _heard_in(entered: Transient, operation: Operation, asks: Interview) -> Source:
    async with entered as port, aclosing(converse(port, operation, asks)) as heard:
        async for told in heard:
            yield told


def _status(answered: Answered) -> int:
    code = None if answered.reply is None else error_code(answered.reply)
    return 200 if code is None else _STATUS.get(code, 200)
