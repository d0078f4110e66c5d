"""The client of an environment with tools: what an agent does, beside what a trainer does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import ConfigDict, TypeAdapter

from openenv_grpc.client import parsing
from openenv_grpc.client.credentials import FilePath
from openenv_grpc.client.env_client import EnvClient
from openenv_grpc.client.events import Progress
from openenv_grpc.client.providers import Provider
from openenv_grpc.errors import InvalidRequestError
from openenv_grpc.tools import (
    CallToolAction,
    CallToolObservation,
    ListToolsAction,
    ListToolsObservation,
    Tool,
)
from openenv_grpc.types import JsonValue, Observation, ServerMode, State, StepResult

ActT = TypeVar("ActT")
ObsT = TypeVar("ObsT")
StateT = TypeVar("StateT")


class GenericMCPObservation(Observation):
    """An observation that is no tool's: all its fields are kept."""

    model_config = ConfigDict(extra="allow")


_LISTS = parsing.ObservationReader(ListToolsObservation)
_CALLS = parsing.ObservationReader(CallToolObservation)
_OTHERS = parsing.ObservationReader(GenericMCPObservation)
_STATES: TypeAdapter[State] = TypeAdapter(State)


class MCPClientBase(EnvClient[ActT, ObsT, StateT]):
    """Lists and calls tools. A base for clients with observations of their own.

    A call of a tool is an operation of the session, in the order of the others. It is no step, and
    works in production too. With a server that speaks the reference's JSON protocol alone, it is
    called as the reference's own client does.
    """

    def __init__(
        self,
        base_url: str | None = None,
        connect_timeout_s: float = 10.0,
        message_timeout_s: float | None = None,
        websocket_ping_interval_s: float | None = 20.0,
        websocket_ping_timeout_s: float | None = 20.0,
        provider: Provider | None = None,
        mode: str | None = None,
        max_message_size_mb: float = 100.0,
        headers: Mapping[str, str] | None = None,
        *,
        environment: str = "",
        queue_timeout_s: float = 300.0,
        on_progress: Callable[[Progress], None] | None = None,
        events: bool = False,
        shared_memory: bool | None = None,
        token: str | None = None,
        tls_ca: FilePath | None = None,
        tls_cert: FilePath | None = None,
        tls_key: FilePath | None = None,
    ) -> None:
        """Makes a client as `EnvClient` does. Its mode is `production`, whatever the variables say.

        Raises:
            InvalidRequestError: an argument is of no use.
        """
        if mode is not None and mode.lower() != ServerMode.PRODUCTION:
            raise InvalidRequestError(f"a client of tools has the mode production, not {mode!r}")
        super().__init__(
            base_url,
            connect_timeout_s,
            message_timeout_s,
            max_message_size_mb,
            websocket_ping_interval_s,
            websocket_ping_timeout_s,
            provider,
            ServerMode.PRODUCTION,
            headers,
            environment=environment,
            queue_timeout_s=queue_timeout_s,
            on_progress=on_progress,
            events=events,
            shared_memory=shared_memory,
            token=token,
            tls_ca=tls_ca,
            tls_cert=tls_cert,
            tls_key=tls_key,
        )

    def _forget(self) -> None:
        super()._forget()
        self._tools: list[Tool] | None = None

    async def list_tools(self, use_cache: bool = True) -> list[Tool]:
        """Lists the tools, from memory if they were listed before.

        Raises:
            OpenEnvError: they could not be listed. (The reference's client answers with none.)
        """
        if self._tools is None or not use_cache:
            session = await self._open()
            self._tools = await session.list_tools()
        return list(self._tools)

    async def call_tool(self, name: str, /, **kwargs: JsonValue) -> JsonValue:
        """Calls a tool and returns its data; a `ToolResult` if it gave content and no data.

        Raises:
            ToolNotFoundError: there is no such tool.
            InvalidArgumentsError: the arguments do not fit.
            EnvironmentFailedError: the tool failed.
        """
        session = await self._open()
        return await session.call_tool(name, kwargs)

    async def get_tool(self, name: str) -> Tool | None:
        """Returns a tool by its name; `None` if there is none."""
        return next((tool for tool in await self.list_tools() if tool.name == name), None)

    async def has_tool(self, name: str) -> bool:
        """Tells whether there is a tool of that name."""
        return await self.get_tool(name) is not None

    def _step_payload(self, action: ActT) -> Mapping[str, JsonValue]:
        match action:
            case ListToolsAction():
                return {"type": "list_tools"}
            case CallToolAction():
                return {
                    "type": "call_tool",
                    "tool_name": action.tool_name,
                    "arguments": action.arguments,
                }
            case _:
                return super()._step_payload(action)


class MCPToolClient(MCPClientBase[Any, Any, State]):
    """Drives any environment that has tools."""

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[Any]:
        """Makes the observation of the class that its fields call for."""
        fields = payload.get("observation") or {}
        reader = _OTHERS
        if "tools" in fields:
            reader = _LISTS
        elif "tool_name" in fields:
            reader = _CALLS
        return StepResult(
            observation=reader.read(payload),
            reward=payload.get("reward"),
            done=payload.get("done", False),
            metadata=payload.get("metadata"),
        )

    def _parse_state(self, payload: dict[str, Any]) -> State:
        state: State = parsing.validated(_STATES, payload, what="state")
        return state
