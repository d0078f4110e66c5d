"""A WebSocket on `/mcp`: the reference's JSON-RPC dialect, over a session of the socket's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openenv_bridge import errors
from openenv_bridge.conversation import Ask, Conversation, Plan
from openenv_bridge.jsonrpc import JSON_RPC_CODEC, BadRequest, ReplyTo, read_request
from openenv_bridge.leases import Leases
from openenv_bridge.mcp_methods import CLOSE, CREATE, plan_on_socket, tool_operation
from openenv_bridge.sockets import Socket
from openenv_grpc.access import Agent, tools_session
from openenv_grpc.environment_spec import EnvironmentSpec
from openenv_grpc.errors import OpenEnvError, PermissionDeniedError
from openenv_grpc.operations import Kind, Operation
from openenv_grpc.sessions import SessionHost, SessionPort

if TYPE_CHECKING:
    from aiohttp import WSMessage


async def serve_mcp_socket(
    socket: Socket, host: SessionHost, leases: Leases, *, environment: EnvironmentSpec
) -> None:
    """Serves a socket until either side ends it. Its session is closed before the socket is."""
    talk = McpTalk(socket, leases)
    try:
        async with host.attach(peer=socket.peer) as attachment:
            talk.session = attachment.open(
                environment.name,
                operation=Operation(kind=Kind.OPEN, codec=JSON_RPC_CODEC, context=ReplyTo()),
                deliver=talk.conversation.opened,
                on_lost=talk.lost,
            )
            await talk.conversation.run()
    except OpenEnvError as error:
        await _refuse(socket, ReplyTo().error(error, environment))
    await socket.close()


async def serve_agent_socket(socket: Socket, leases: Leases, *, session_id: str) -> None:
    """Serves an agent's socket until either side ends it. Its session is its trainer's."""
    try:
        await AgentTalk(socket, leases.find(session_id)).conversation.run()
    except OpenEnvError as error:
        await _refuse(socket, ReplyTo().error(error, None))
    await socket.close()


async def _refuse(socket: Socket, answer: bytes) -> None:
    """Tells why there is no session."""
    try:
        await socket.send_text(answer)
    except ConnectionError:
        return


class McpTalk:
    """What requests mean in a socket's session."""

    session: SessionPort

    def __init__(self, socket: Socket, leases: Leases) -> None:
        self.conversation = Conversation(socket, self._plan)
        self._leases = leases

    def lost(self, session: SessionPort, error: OpenEnvError) -> None:
        """Tells the peer that its session has ended."""
        self.conversation.end(ReplyTo().failure(errors.SERVER_ERROR, error.message))

    def _plan(self, message: WSMessage) -> Plan:
        read = read_request(message.data)
        if isinstance(read, BadRequest):
            return read.answer
        request, reply_to = read
        return plan_on_socket(request, reply_to, self.session, self._leases)


class AgentTalk:
    """What requests mean in a socket whose token is an agent's."""

    def __init__(self, socket: Socket, session: SessionPort) -> None:
        self.conversation = Conversation(socket, self._plan)
        self._session = session

    def _plan(self, message: WSMessage) -> Plan:
        read = read_request(message.data)
        if isinstance(read, BadRequest):
            return read.answer
        request, reply_to = read
        try:
            if request.method in (CREATE, CLOSE):
                raise PermissionDeniedError("an agent's token opens and closes no sessions")
            named = str(request.params.get("session_id") or "")
            tools_session(Agent(self._session.id), named)
        except PermissionDeniedError as error:
            return reply_to.error(error, None)
        asked = tool_operation(request, reply_to)
        return asked if isinstance(asked, bytes) else Ask(self._session, asked)
