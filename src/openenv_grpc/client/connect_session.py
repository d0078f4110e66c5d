"""A session on a shared `Connect` stream."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from openenv_grpc.client import operations
from openenv_grpc.client.agent_access import AgentAccess
from openenv_grpc.client.connection import Connection
from openenv_grpc.client.remote_session import (
    CLOSE_TIMEOUT_S,
    Evaluation,
    answer_within,
    gone,
    in_flight,
)
from openenv_grpc.client.tool_calls import ToolCaller, call_by_step, list_by_step
from openenv_grpc.errors import (
    NotSupportedError,
    OpenEnvError,
    SessionClosedError,
    TooManyOperationsError,
)
from openenv_grpc.tools import Tool
from openenv_grpc.types import JsonValue
from openenv_grpc.v1 import session_pb2
from openenv_grpc.wire import status

AGENT_ACCESS = "agent_access"
"""The feature of servers that mint access for agents."""

SLACK_S = 2.0
"""How much longer than an operation's own limit the client waits for the server to say so."""

Pending = asyncio.Future[session_pb2.Outcome]


class ConnectSession:
    """Numbers its operations from 1, and pairs their outcomes with those who wait."""

    def __init__(
        self,
        connection: Connection,
        *,
        release: Callable[[], Awaitable[None]],
        tools: ToolCaller | None,
        message_timeout_s: float,
    ) -> None:
        self._connection = connection
        self._release = release
        self._tools = tools
        self._message_timeout_s = message_timeout_s
        self._number = connection.add(self)
        self._last_id = 0
        # By request id, in order. Who gave up waiting leaves a future that is done; its place is
        # kept until the late outcome comes, which is then nobody else's.
        self._pending: dict[int, Pending] = {}
        self._id = ""
        self._agent_access: AgentAccess | None = None
        self.lost: OpenEnvError | None = None

    async def open(self, environment: str) -> None:
        """Opens the session on the server. Raises an `OpenEnvError` if it does not want to."""
        offered = AGENT_ACCESS in self._connection.features
        operation = operations.open_session(environment, agent_access=offered)
        opened = (await self._ask(operation, what="open")).open
        self._id = opened.session_id
        if offered:
            self._agent_access = AgentAccess(
                url=opened.agent_access.mcp_url,
                token=opened.agent_access.token,
                session_id=opened.session_id,
            )

    async def reset(
        self, keywords: Mapping[str, JsonValue], *, timeout_s: float | None
    ) -> dict[str, Any]:
        """See `RemoteSession`."""
        operation = operations.reset_episode(keywords)
        outcome = await self._ask(operation, what="reset", timeout_s=timeout_s)
        return operations.observed(outcome.reset_episode)

    async def step(
        self,
        action: Mapping[str, JsonValue],
        keywords: Mapping[str, JsonValue],
        *,
        timeout_s: float | None,
    ) -> dict[str, Any]:
        """See `RemoteSession`."""
        operation = operations.step(action, keywords)
        outcome = await self._ask(operation, what="step", timeout_s=timeout_s)
        return operations.observed(outcome.step)

    async def state(self) -> dict[str, Any]:
        """See `RemoteSession`."""
        outcome = await self._ask(operations.get_state(), what="state")
        return operations.state_read(outcome.get_state)

    async def evaluate(self) -> Evaluation:
        """See `RemoteSession`."""
        outcome = await self._ask(operations.evaluate(), what="evaluate")
        return operations.evaluated(outcome.evaluate)

    def agent_access(self) -> AgentAccess:
        """See `RemoteSession`."""
        self._check()
        if self._agent_access is None:
            raise NotSupportedError("the server offers no access for agents")
        return self._agent_access

    async def list_tools(self) -> list[Tool]:
        """See `RemoteSession`."""
        self._check()
        if self._tools is None:
            return await list_by_step(self)
        return await self._tools.list_tools(self._id, limit_s=self._message_timeout_s)

    async def call_tool(self, name: str, arguments: Mapping[str, JsonValue]) -> JsonValue:
        """See `RemoteSession`."""
        self._check()
        if self._tools is None:
            return await call_by_step(self, name, arguments)
        return await self._tools.call_tool(
            self._id, name, arguments, limit_s=self._message_timeout_s
        )

    async def close(self) -> None:
        """See `RemoteSession`."""
        try:
            if self.lost is None:
                await self._ask(operations.close(), what="close", limit_s=CLOSE_TIMEOUT_S)
        except OpenEnvError:
            pass  # it is gone, or will be when the stream ends
        finally:
            self.lost = self.lost or SessionClosedError("the session was closed")
            self._connection.remove(self._number)
            await self._release()

    async def abandon(self) -> None:
        """Ends a session whose opening failed or was given up, without waiting for the server."""
        if self.lost is None:
            self._last_id += 1
            operation = operations.close()
            operation.session, operation.request_id = self._number, self._last_id
            self._connection.send(operation.SerializeToString())
        self._connection.remove(self._number)
        await self._release()

    def _check(self) -> None:
        if self.lost is not None:
            raise gone(self.lost)

    def _check_room(self) -> None:
        """Refuses what the server would refuse, before it uses up an id."""
        limit = self._connection.operations_limit
        if 0 < limit <= len(self._pending):
            raise TooManyOperationsError(
                f"{limit} operations of this session are in flight, those included that were given "
                "up; wait for an answer first"
            )

    async def _ask(
        self,
        operation: session_pb2.Operation,
        *,
        what: str,
        timeout_s: float | None = None,
        limit_s: float | None = None,
    ) -> session_pb2.Outcome:
        self._check()
        self._check_room()
        request_id = self._last_id + 1
        operation.session = self._number
        operation.request_id = request_id
        operation.acknowledged_id = next(iter(self._pending), request_id) - 1
        if timeout_s is not None:
            operation.timeout.FromNanoseconds(max(1, round(timeout_s * 1e9)))
            limit_s = timeout_s + SLACK_S
        data = operation.SerializeToString()
        self._connection.check_size(data)  # before the id is used up
        self._last_id = request_id
        pending: Pending = asyncio.get_running_loop().create_future()
        self._pending[request_id] = pending
        self._connection.send(data)
        try:
            outcome = await answer_within(pending, limit_s or self._message_timeout_s, what=what)
        except asyncio.CancelledError:
            self._cancel(request_id)
            raise
        if outcome.HasField("error"):
            raise self._failure(outcome)
        return outcome

    def _cancel(self, request_id: int) -> None:
        if self.lost is None:
            operation = session_pb2.Operation()
            operation.session = self._number
            operation.cancel.request_id = request_id
            self._connection.send(operation.SerializeToString())

    def _failure(self, outcome: session_pb2.Outcome) -> OpenEnvError:
        error = status.decode_error(outcome.error)
        if error.session_lost:
            self.lose(error)
        return error

    def receive(self, outcome: session_pb2.Outcome) -> None:
        """See `Receiver`."""
        pending = self._pending.pop(outcome.request_id, None)
        if pending is not None:
            if not pending.done():
                pending.set_result(outcome)
        elif outcome.HasField("event") and outcome.event.HasField("session_lost"):
            self.lose(status.decode_error(outcome.event.session_lost))

    def lose(self, error: OpenEnvError) -> None:
        """See `Receiver`."""
        if self.lost is not None:
            return
        self.lost = error
        waiting = [pending for pending in self._pending.values() if not pending.done()]
        self._pending.clear()
        for pending in waiting:
            pending.set_exception(in_flight(error))
        self._connection.remove(self._number)
