"""A session whose calls are spans."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from openenv_grpc.client.agent_access import AgentAccess
from openenv_grpc.client.outcomes import Evaluation
from openenv_grpc.client.pending import Posted
from openenv_grpc.client.remote_session import Actions, RemoteSession
from openenv_grpc.client.time_limits import TimeLimits
from openenv_grpc.client.urls import Target
from openenv_grpc.errors import OpenEnvError
from openenv_grpc.tools import Tool
from openenv_grpc.tracing import Facts, Tracing, configured
from openenv_grpc.types import Budgets, JsonValue


class TracedSession:
    """Makes a client's span of each call. Implements `RemoteSession`."""

    def __init__(self, session: RemoteSession, tracing: Tracing, facts: Facts) -> None:
        self._session = session
        self._tracing = tracing
        self._facts = facts

    def _span(self, call: str) -> AbstractContextManager[None]:
        return self._tracing.calling(f"openenv {call}", self._facts)

    @property
    def limits(self) -> TimeLimits:
        """See `RemoteSession`."""
        return self._session.limits

    @property
    def lost(self) -> OpenEnvError | None:
        """See `RemoteSession`."""
        return self._session.lost

    @property
    def budgets(self) -> Budgets:
        """See `RemoteSession`."""
        return self._session.budgets

    @property
    def shares_memory(self) -> bool:
        """See `RemoteSession`."""
        return self._session.shares_memory

    async def reset(
        self, keywords: Mapping[str, JsonValue], *, timeout_s: float | None
    ) -> dict[str, Any]:
        """See `RemoteSession`."""
        with self._span("reset"):
            return await self._session.reset(keywords, timeout_s=timeout_s)

    async def step(
        self,
        action: Mapping[str, JsonValue],
        keywords: Mapping[str, JsonValue],
        *,
        timeout_s: float | None,
    ) -> dict[str, Any]:
        """See `RemoteSession`."""
        with self._span("step"):
            return await self._session.step(action, keywords, timeout_s=timeout_s)

    def post_reset(self, keywords: Mapping[str, JsonValue], place: Posted) -> None:
        """See `RemoteSession`. The span is of the sending; the server's, its child, of the rest."""
        with self._span("reset"):
            self._session.post_reset(keywords, place)

    def post_step(self, actions: Actions, row: int, place: Posted) -> None:
        """See `RemoteSession`. The span is of the sending; the server's, its child, of the rest."""
        with self._span("step"):
            self._session.post_step(actions, row, place)

    async def state(self) -> dict[str, Any]:
        """See `RemoteSession`."""
        with self._span("state"):
            return await self._session.state()

    async def evaluate(self) -> Evaluation:
        """See `RemoteSession`."""
        with self._span("evaluate"):
            return await self._session.evaluate()

    def agent_access(self) -> AgentAccess:
        """See `RemoteSession`. Asks nobody."""
        return self._session.agent_access()

    async def snapshot(self) -> str:
        """See `RemoteSession`."""
        with self._span("snapshot"):
            return await self._session.snapshot()

    async def list_tools(self) -> list[Tool]:
        """See `RemoteSession`."""
        with self._span("list_tools"):
            return await self._session.list_tools()

    async def call_tool(self, name: str, arguments: Mapping[str, JsonValue]) -> JsonValue:
        """See `RemoteSession`."""
        with self._span("call_tool"):
            return await self._session.call_tool(name, arguments)

    async def close(self) -> None:
        """See `RemoteSession`."""
        with self._span("close"):
            await self._session.close()


async def traced(
    opening: Awaitable[RemoteSession], *, target: Target, environment: str
) -> RemoteSession:
    """Opens a session; its opening and its calls are spans if the program has tracing configured.

    Raises what `opening` raises.
    """
    tracing = configured()
    if tracing is None:
        return await opening
    facts = {"server.address": target.uri, "openenv.environment": environment or None}
    with tracing.calling("openenv open", facts):
        session = await opening
    return TracedSession(session, tracing, facts)
