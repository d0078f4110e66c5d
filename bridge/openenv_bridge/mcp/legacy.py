"""MCP of 2024-11-05 to 2025-11-25 over HTTP: sessions that begin with `initialize`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from aiohttp import web

from openenv_bridge.mcp import greeting, messages, methods
from openenv_bridge.mcp.codec import MCP_CODEC, Answering
from openenv_bridge.mcp.envelope import SESSION_PARAMETER, VERSION_HEADER
from openenv_bridge.mcp.exchange import (
    Answered,
    Told,
    Wanted,
    at_once,
    exchange,
    interview,
    progress_token,
)
from openenv_bridge.mcp.http_answers import EVENT_STREAM, HttpAnswer, accepts
from openenv_bridge.mcp.messages import (
    BATCHING_VERSION,
    INVALID_REQUEST,
    LEGACY_VERSIONS,
    SESSION_ERROR,
    SESSION_NOT_FOUND,
    Call,
    McpError,
    Notification,
)
from openenv_bridge.mcp.offers import ASKING, offers
from openenv_bridge.mcp.pushes import Pushes, Wishes
from openenv_bridge.mcp.sessions import McpSession, McpSessions
from openenv_bridge.responses import json_response, peer_of
from openenv_grpc.access import Agent, Principal
from openenv_grpc.environment_spec import EnvironmentSpec
from openenv_grpc.errors import OpenEnvError, SessionNotFoundError
from openenv_grpc.hearing import Interview
from openenv_grpc.operations import Kind, Operation, Reply
from openenv_grpc.sessions import SessionPort, ask
from openenv_grpc.types import JsonValue

SESSION_HEADER = "Mcp-Session-Id"


class Legacy:
    """Answers clients that begin with `initialize`."""

    def __init__(self, sessions: McpSessions) -> None:
        self._sessions = sessions

    async def post(
        self, request: web.Request, value: JsonValue, spec: EnvironmentSpec, principal: Principal
    ) -> web.StreamResponse:
        """Answers a message, or a batch of them."""
        try:
            if not (accepts(request, "application/json") or accepts(request, EVENT_STREAM)):
                told = "the client has to accept application/json or text/event-stream"
                raise McpError(INVALID_REQUEST, told)
            check_version(request)
            if isinstance(value, list):
                return await self._batch(request, value, principal)
            return await self._one(request, messages.read(value), spec, principal)
        except McpError as refused:
            return json_response(refused.written(), status=_status(refused))
        except SessionNotFoundError as error:
            return session_not_found(error)

    async def get(self, request: web.Request, principal: Principal) -> web.StreamResponse:
        """Tells a client of changes, until it leaves, asks anew or its session ends."""
        try:
            check_version(request)
            session = self._named(request, principal)
        except McpError as refused:
            return json_response(refused.written(), status=400)
        except SessionNotFoundError as error:
            return session_not_found(error)
        if session.pushes is not None:
            session.pushes.ended()  # its client has lost that stream, and told nobody
        pushes = Pushes(
            Wishes(uris=session.subscribed),
            is_own=lambda operation: operation in session.running.values(),
        )
        session.pushes = pushes
        with self._sessions.listening(session.port, pushes):
            return await HttpAnswer(request, opens=True).send(_pushed(pushes))

    async def delete(self, request: web.Request, principal: Principal) -> web.StreamResponse:
        """Ends a session."""
        try:
            check_version(request)
            await self._sessions.end(self._named(request, principal))
        except McpError as refused:
            return json_response(refused.written(), status=400)
        except SessionNotFoundError as error:
            return session_not_found(error)
        return web.Response(status=204)

    async def _one(
        self,
        request: web.Request,
        message: messages.Message,
        spec: EnvironmentSpec,
        principal: Principal,
    ) -> web.StreamResponse:
        match message:
            case Call(method="initialize"):
                return await self._initialize(request, message, spec, principal)
            case Call(method="ping") if SESSION_HEADER not in request.headers:
                return json_response(messages.result(message.id, {}))
            case Call():
                return await self._call(request, message, self._named(request, principal))
            case Notification(method="notifications/cancelled"):
                cancel(self._named(request, principal), message.params.get("requestId"))
            case messages.Answer():
                self._named(request, principal).requests.take(message)
        if SESSION_HEADER in request.headers:
            self._named(request, principal)
        return web.Response(status=202)

    async def _initialize(
        self, request: web.Request, call: Call, spec: EnvironmentSpec, principal: Principal
    ) -> web.StreamResponse:
        joined = request.query.get(SESSION_PARAMETER, "")
        if isinstance(principal, Agent):
            joined = principal.session_id
        try:
            if joined:
                session = self._sessions.join(joined)
            else:
                session = await self._sessions.begin(spec, peer=peer_of(request))
        except OpenEnvError as error:
            return json_response(messages.error(call.id, SESSION_ERROR, error.message))
        content = await initialized(session, call)
        answer = HttpAnswer(request, headers={SESSION_HEADER: session.id})
        return await answer.send(at_once(content))

    async def _call(
        self, request: web.Request, call: Call, session: McpSession
    ) -> web.StreamResponse:
        # A client that goes has not cancelled its call: it says so, if it wants to.
        answer = HttpAnswer(request, outlives=self._sessions.spawn)
        asks = Interview(session.offers if answer.streams else frozenset())
        session.streams += 1
        try:
            return await answer.send(told_of(call, session, asks))
        finally:
            session.streams -= 1
            asks.hang_up("the client is gone: the stream by which it was asked has ended")

    async def _batch(
        self, request: web.Request, values: list[JsonValue], principal: Principal
    ) -> web.StreamResponse:
        session = self._named(request, principal)
        if session.version != BATCHING_VERSION or not values:
            raise McpError(INVALID_REQUEST, f"{session.version} has no batches")
        read = [messages.read(value) for value in values]
        answers = await asyncio.gather(
            *(_answer(each, session) for each in read if isinstance(each, Call))
        )
        for each in read:
            if isinstance(each, Notification) and each.method == "notifications/cancelled":
                cancel(session, each.params.get("requestId"))
        if not answers:
            return web.Response(status=202)
        return json_response(b"[" + b",".join(answers) + b"]")

    def _named(self, request: web.Request, principal: Principal) -> McpSession:
        session_id = request.headers.get(SESSION_HEADER)
        if session_id is None:
            raise McpError(INVALID_REQUEST, f"the header {SESSION_HEADER} is missing")
        return self._sessions.find(session_id, principal)


async def initialized(session: McpSession, call: Call) -> bytes:
    """Answers `initialize`."""
    result = greeting.initialized(
        session.port.spec,
        asked=call.params.get("protocolVersion"),
        description=await described(session.port),
        first=session.first,
    )
    session.version = result["protocolVersion"]
    session.offers = offers(call.params.get("capabilities"))
    return messages.result(call.id, result)


async def described(port: SessionPort) -> str:
    """Returns what an environment says of itself; empty if it says nothing."""
    operation = Operation(kind=Kind.METADATA, codec=MCP_CODEC, context=Answering(id=0))
    reply: Reply = await ask(port, operation)
    return "" if reply.error is not None else reply.content.decode()


async def told_of(call: Call, session: McpSession, asks: Interview | None = None) -> Told:
    """Does what a call asks for, and tells of it; `asks` is how tools ask the client."""
    try:
        plan = methods.in_session(call, session)
    except McpError as refused:
        plan = refused.written()
    if isinstance(plan, bytes):
        told = at_once(plan)
    else:
        session.running[call.id] = plan
        wanted = Wanted(
            progress_token=progress_token(call), level=session.level, subscribed=session.subscribed
        )
        if asks is None or not asks.offers or plan.kind not in ASKING:
            told = exchange(session.port, plan, wanted)
        else:
            told = interview(session.port, plan, wanted, asks, session.requests)
    try:
        async for each in told:
            yield each
    finally:
        await told.aclose()
        session.running.pop(call.id, None)


async def _answer(call: Call, session: McpSession) -> bytes:
    content = b""
    async for told in told_of(call, session):
        content = told if isinstance(told, bytes) else told.content
    return content


async def _pushed(pushes: Pushes) -> Told:
    async for content in pushes.told():
        yield content
    yield Answered(b"")


def cancel(session: McpSession, call_id: JsonValue) -> None:
    """Cancels a call, if it still runs."""
    operation = session.running.get(call_id) if isinstance(call_id, str | int) else None
    if operation is not None:
        session.port.cancel_operation(operation)


def check_version(request: web.Request) -> None:
    """Refuses a version that is not spoken. Raises `McpError`."""
    named = request.headers.get(VERSION_HEADER)
    if named is not None and named not in LEGACY_VERSIONS:
        raise McpError(
            INVALID_REQUEST,
            f"{VERSION_HEADER} {named!r} is not spoken here; {', '.join(LEGACY_VERSIONS)} are",
        )


def session_not_found(error: OpenEnvError) -> web.Response:
    """Answers for a session that is not there, such that its client begins anew."""
    return json_response(messages.error(None, SESSION_NOT_FOUND, error.message), status=404)


_REFUSED: Mapping[int, int] = {messages.PARSE_ERROR: 400, INVALID_REQUEST: 400}


def _status(refused: McpError) -> int:
    return _REFUSED.get(refused.code, 200)
