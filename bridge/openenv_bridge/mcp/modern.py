"""MCP of 2026-07-28 over HTTP: each request stands for itself, and may name a session."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import aclosing, suppress

from aiohttp import web

from openenv_bridge.mcp import envelope, greeting, messages, methods
from openenv_bridge.mcp.codec import (
    HANDLE_META,
    OBSERVATION_URI,
    Answering,
    error_code,
    tool_error,
    without_handle,
)
from openenv_bridge.mcp.exchange import Answered, Told, Wanted, at_once, exchange, progress_token
from openenv_bridge.mcp.http_answers import HttpAnswer
from openenv_bridge.mcp.messages import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    SESSION_ERROR,
    SESSION_NOT_FOUND,
    UNSUPPORTED_VERSION,
    Call,
    McpError,
)
from openenv_bridge.mcp.mirrored import Mirrors
from openenv_bridge.mcp.sessions import McpSessions
from openenv_bridge.responses import json_response, peer_of
from openenv_grpc.access import Principal, tools_session
from openenv_grpc.environment_spec import EnvironmentSpec
from openenv_grpc.errors import OpenEnvError, SessionNotFoundError
from openenv_grpc.operations import Operation, ToolCall
from openenv_grpc.sessions import SessionHost, SessionPort
from openenv_grpc.types import JsonValue

_STATUS: Mapping[int, int] = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    UNSUPPORTED_VERSION: 400,
    METHOD_NOT_FOUND: 404,
    SESSION_NOT_FOUND: 404,
}


class Modern:
    """Answers clients of whom nothing is kept but the sessions that they name."""

    def __init__(self, host: SessionHost, sessions: McpSessions) -> None:
        self._host = host
        self._sessions = sessions
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
            told = await self._told(request, message, spec, named)
            return await HttpAnswer(request, status_of=_status).send(told)
        except McpError as refused:
            return json_response(refused.written(), status=_STATUS.get(refused.code, 200))

    async def _told(
        self, request: web.Request, call: Call, spec: EnvironmentSpec, named: str
    ) -> Told:
        """Begins to do what a call asks for, in the session that it names."""
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
                return _listening(call)
            case "tools/call":
                return await self._call_tool(request, call, spec, named)
            case "resources/read" if call.params.get("uri") == OBSERVATION_URI and not named:
                return await self._begin(answering, spec, peer_of(request))
        plan = methods.of_both_eras(call, answering, first=first)
        if isinstance(plan, bytes):
            return at_once(plan)
        if named:
            return _exchange(call, self._claimed(call, named), plan)
        return self._in_transient(call, spec, plan)

    async def _call_tool(
        self, request: web.Request, call: Call, spec: EnvironmentSpec, named: str
    ) -> Told:
        tool, handle = methods.called_tool(call)
        tool = without_handle(tool)
        answering = Answering(id=call.id, modern=True)
        try:
            if not (named or handle):
                return await self._call_anew(request, call, spec, tool)
            port = self._claimed(call, named) if named else self._sessions.claim(handle)
        except SessionNotFoundError as error:
            return at_once(tool_error(answering, f"{error.message}. Call without it to begin anew"))
        except OpenEnvError as error:
            raise McpError(SESSION_ERROR, error.message, call_id=call.id) from error
        await self._mirrors.check(call, port, tool, request.headers)
        return _exchange(call, port, methods.tool_operation(tool, answering))

    async def _call_anew(
        self, request: web.Request, call: Call, spec: EnvironmentSpec, tool: ToolCall
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
            async with aclosing(_exchange(call, session.port, operation)) as exchanged:
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

    async def _in_transient(self, call: Call, spec: EnvironmentSpec, operation: Operation) -> Told:
        """Asks an environment that is built for this call alone, since no session is meant."""
        async with self._host.transient(spec.name) as port:
            async for told in _exchange(call, port, operation):
                yield told

    async def _described(self, spec: EnvironmentSpec) -> str:
        with suppress(OpenEnvError):  # what fails to be built tells nothing of itself
            return (await self._host.metadata(spec.name)).description
        return ""


def _named(request: web.Request, call: Call, principal: Principal) -> str:
    """Returns the session that a call means; empty text if nothing says which."""
    named = call.meta.get(HANDLE_META) or request.query.get(envelope.SESSION_PARAMETER, "")
    return tools_session(principal, str(named))


def _exchange(call: Call, port: SessionPort, operation: Operation) -> Told:
    wanted = Wanted(progress_token=progress_token(call), level=envelope.log_level(call))
    return exchange(port, operation, wanted)


async def _listening(call: Call) -> Told:
    """Tells that nothing will be told: no session announces changes by itself."""
    meta: JsonValue = {envelope.SUBSCRIPTION_META: call.id}
    params: dict[str, JsonValue] = {"notifications": {}, "_meta": meta}
    yield messages.notification("notifications/subscriptions/acknowledged", params)
    await asyncio.Event().wait()


def _status(answered: Answered) -> int:
    code = None if answered.reply is None else error_code(answered.reply)
    return 200 if code is None else _STATUS.get(code, 200)
