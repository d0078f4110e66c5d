"""A WebSocket on `/mcp`: the reference's JSON-RPC dialect, over a session of the socket's own."""

from __future__ import annotations

from aiohttp import WSMessage

from openenv_bridge import errors
from openenv_bridge.conversation import Conversation, Plan
from openenv_bridge.jsonrpc import JSON_RPC_CODEC, BadRequest, ReplyTo, read_request
from openenv_bridge.leases import Leases
from openenv_bridge.mcp_methods import plan_on_socket
from openenv_bridge.sockets import Socket
from openenv_grpc.errors import OpenEnvError
from openenv_grpc.sessions import EnvironmentSpec, Kind, Operation, Reply, SessionHost, SessionPort


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
                deliver=talk.opened,
                on_lost=talk.lost,
            )
            await talk.conversation.run()
    except OpenEnvError as error:
        await _refuse(socket, ReplyTo().error(error, environment))
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

    def opened(self, reply: Reply) -> None:
        """Takes the outcome of the opening."""
        if reply.error is not None:
            self.conversation.end(reply.content)

    def lost(self, session: SessionPort, error: OpenEnvError) -> None:
        """Tells the peer that its session has ended."""
        self.conversation.end(ReplyTo().failure(errors.SERVER_ERROR, error.message))

    def _plan(self, message: WSMessage) -> Plan:
        read = read_request(message.data)
        if isinstance(read, BadRequest):
            return read.answer
        request, reply_to = read
        return plan_on_socket(request, reply_to, self.session, self._leases)
