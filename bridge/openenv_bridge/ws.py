"""The reference's `/ws`: one socket, one session, JSON frames."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from aiohttp.web import WSMsgType

from openenv_bridge import errors
from openenv_bridge.conversation import Ask, Conversation, Plan
from openenv_bridge.jsonrpc import BadRequest, check_request
from openenv_bridge.leases import Leases
from openenv_bridge.mcp_methods import plan_on_socket
from openenv_bridge.sockets import Socket
from openenv_bridge.ws_messages import (
    JSON_CODEC,
    CloseFrame,
    Frame,
    McpFrame,
    Refusal,
    ResetFrame,
    StateFrame,
    StepFrame,
    error_frame,
    read_frame,
    refuse_binary,
)
from openenv_grpc.environment_spec import EnvironmentSpec
from openenv_grpc.errors import OpenEnvError
from openenv_grpc.operations import Kind, Operation
from openenv_grpc.sessions import SessionHost, SessionPort

if TYPE_CHECKING:
    from aiohttp import WSMessage


async def serve_json(
    socket: Socket,
    host: SessionHost,
    leases: Leases,
    *,
    environment: EnvironmentSpec,
    session_id: str | None,
) -> None:
    """Serves a socket until either side ends it. Its session is closed before the socket is."""
    talk = JsonTalk(socket, leases)
    try:
        if session_id:
            async with _attached(talk, leases, session_id):
                await talk.conversation.run()
        else:
            async with _opened(talk, host, environment, socket.peer):
                await talk.conversation.run()
    except OpenEnvError as error:
        await refuse(socket, error, environment)
    await socket.close()


@asynccontextmanager
async def _attached(talk: JsonTalk, leases: Leases, session_id: str) -> AsyncIterator[None]:
    """Attaches to a session that was opened over HTTP."""
    talk.session = leases.attach(session_id, talk.lost)
    try:
        yield
    finally:
        await leases.detach(talk.session)


@asynccontextmanager
async def _opened(
    talk: JsonTalk, host: SessionHost, environment: EnvironmentSpec, peer: str
) -> AsyncIterator[None]:
    """Opens a session of the socket's own."""
    async with host.attach(peer=peer) as attachment:
        talk.session = attachment.open(
            environment.name,
            operation=Operation(kind=Kind.OPEN, codec=JSON_CODEC),
            deliver=talk.conversation.opened,
            on_lost=lambda _, error: talk.lost(error),
        )
        yield


async def refuse(socket: Socket, error: OpenEnvError, spec: EnvironmentSpec) -> None:
    """Tells why there is no session."""
    code = errors.ws_code(error)
    if code not in errors.CLOSING_CODES:
        code = errors.SESSION_ERROR
    facts = errors.facts(error, spec)
    try:
        await socket.send_text(error_frame(errors.message(error, spec), code, **facts))
    except ConnectionError:
        return


class JsonTalk:
    """What frames mean in a socket's session."""

    session: SessionPort

    def __init__(self, socket: Socket, leases: Leases) -> None:
        self.conversation = Conversation(socket, self._plan)
        self._leases = leases

    def lost(self, error: OpenEnvError) -> None:
        """Tells the peer that its session has ended."""
        self.conversation.end(error_frame(error.message, errors.SESSION_ERROR))

    def _plan(self, message: WSMessage) -> Plan:
        frame = read_frame(message.data) if message.type is WSMsgType.TEXT else refuse_binary()
        return frame.answer if isinstance(frame, Refusal) else self._plan_frame(frame)

    def _plan_frame(self, frame: Frame) -> Plan:
        match frame:
            case StepFrame():
                return self._ask(Kind.STEP, frame, frame.data)
            case ResetFrame():
                return self._ask(Kind.RESET, frame, frame.data)
            case StateFrame():
                return self._ask(Kind.STATE, frame)
            case McpFrame():
                return self._plan_mcp(frame)
            case CloseFrame():
                return None

    def _ask(
        self, kind: Kind, frame: StepFrame | ResetFrame | StateFrame, payload: object = None
    ) -> Ask:
        operation = Operation(
            kind=kind,
            codec=JSON_CODEC,
            payload=payload,
            timeout_s=frame.timeout_s,
            context=frame.request_id,
        )
        operation.trace = frame.traceparent
        return Ask(self.session, operation)

    def _plan_mcp(self, frame: McpFrame) -> Plan:
        checked = check_request(frame.data, in_frame=True, request_id=frame.request_id)
        if isinstance(checked, BadRequest):
            return checked.answer
        request, reply_to = checked
        return plan_on_socket(
            request, reply_to, self.session, self._leases, timeout_s=frame.timeout_s
        )
