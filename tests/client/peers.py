"""Servers that misbehave, each in the one way that its test asks for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import WSMsgType, web

from openenv_grpc.v1 import session_pb2

SUBPROTOCOL = "openenv-grpc.v1"

Handler = Callable[[web.WebSocketResponse], Awaitable[None]]


@asynccontextmanager
async def serve_socket(handler: Handler, *, binary: bool) -> AsyncIterator[str]:
    """Serves `/ws` by a handler and gives its base URL."""

    async def upgrade(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(
            protocols=(SUBPROTOCOL,) if binary else (), max_msg_size=2**30
        )
        await socket.prepare(request)
        await handler(socket)
        return socket

    app = web.Application()
    app.router.add_get("/ws", upgrade)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server = site._server
    assert isinstance(server, asyncio.Server)
    try:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        await runner.cleanup()


class ConnectPeer:
    """Speaks `Connect` over a WebSocket: well, but for what a test changes."""

    def __init__(self) -> None:
        self.sockets: list[web.WebSocketResponse] = []
        self.messages: list[session_pb2.ConnectRequest] = []
        self.max_receive_size_bytes = 2**20
        self.features: list[str] = []
        self.held: Callable[[session_pb2.Operation], bool] = lambda _operation: False
        """Which operations get no answer before `release`."""
        self.silent = False
        self.ended = 0
        """How many sockets have ended."""
        self.arrived = asyncio.Condition()
        self._late: list[tuple[web.WebSocketResponse, session_pb2.Operation]] = []

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        async with serve_socket(self._talk, binary=True) as base_url:
            yield base_url

    async def _talk(self, socket: web.WebSocketResponse) -> None:
        self.sockets.append(socket)
        async for message in socket:
            if message.type is not WSMsgType.BINARY:
                break
            request = session_pb2.ConnectRequest.FromString(message.data)
            self.messages.append(request)
            if not self.silent:
                await self._answer(socket, request)
            async with self.arrived:
                self.arrived.notify_all()
        self.ended += 1
        async with self.arrived:
            self.arrived.notify_all()

    async def _answer(
        self, socket: web.WebSocketResponse, request: session_pb2.ConnectRequest
    ) -> None:
        response = session_pb2.ConnectResponse()
        if request.HasField("client"):
            response.server.max_receive_size_bytes = self.max_receive_size_bytes
            response.server.features.extend(self.features)
            self.greet(response.server)
        for operation in request.operations:
            if self.held(operation):
                self._late.append((socket, operation))
            else:
                response.outcomes.append(self.outcome(operation))
        await socket.send_bytes(response.SerializeToString())

    def greet(self, hello: session_pb2.ServerHello) -> None:
        """Says more of itself."""

    def outcome(self, operation: session_pb2.Operation) -> session_pb2.Outcome:
        """Answers an operation."""
        return outcome_of(operation)

    async def release(self) -> None:
        """Answers what was held."""
        late, self._late = self._late, []
        for socket, operation in late:
            response = session_pb2.ConnectResponse(outcomes=[outcome_of(operation)])
            await socket.send_bytes(response.SerializeToString())

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits until something has arrived."""
        async with asyncio.timeout(5), self.arrived:
            await self.arrived.wait_for(condition)

    @property
    def operations(self) -> list[session_pb2.Operation]:
        return [operation for message in self.messages for operation in message.operations]

    async def send(self, outcome: session_pb2.Outcome) -> None:
        """Sends something that nobody asked for."""
        response = session_pb2.ConnectResponse(outcomes=[outcome])
        await self.sockets[-1].send_bytes(response.SerializeToString())

    def cut(self) -> None:
        """Cuts every connection without a word."""
        for socket in self.sockets:
            request = socket._req
            assert request is not None
            transport = request.transport
            assert transport is not None
            transport.abort()


def outcome_of(operation: session_pb2.Operation) -> session_pb2.Outcome:
    """Returns a step that echoes its action, and what is usual for the rest."""
    outcome = session_pb2.Outcome(session=operation.session, request_id=operation.request_id)
    match operation.WhichOneof("kind"):
        case "open":
            outcome.open.session_id = f"session-{operation.session}"
            if operation.open.HasField("resume_window"):
                outcome.open.resume_window.CopyFrom(operation.open.resume_window)
        case "attach":
            outcome.control_id = operation.control_id
            outcome.attach.last_request_id = 1
        case "reset_episode":
            outcome.reset_episode.observation.json = "{}"
        case "step":
            outcome.step.observation.CopyFrom(operation.step.action)
        case "get_state":
            outcome.get_state.state.json = "{}"
        case "close":
            outcome.close.step_count = 0
        case "cancel":
            outcome.control_id = operation.control_id
            outcome.cancel.effect = session_pb2.CANCEL_EFFECT_RUNS_ON
        case kind:
            raise AssertionError(kind)
    return outcome
