"""Clients of the packages `mcp` and `fastmcp`, of any version that we know, made to look alike."""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol

from openenv_grpc.types import JsonValue

HearsProgress = Callable[[float, float | None, str | None], Awaitable[None]]
"""Called with how much is done, how much there is to do, and what is being done."""
HearsLogs = Callable[[Any], Awaitable[None]]
"""Called with one of their models: `level`, `data` and `logger`."""


class ServerClient(Protocol):
    """A client of a server that runs in this process. Models are those of its package."""

    async def list_tools(self) -> list[Any]:
        """Lists tools."""
        ...

    async def call_tool(
        self, name: str, arguments: dict[str, JsonValue], hears: HearsProgress | None
    ) -> Any:
        """Calls a tool."""
        ...

    async def list_resources(self) -> list[Any]:
        """Lists resources."""
        ...

    async def list_templates(self) -> list[Any]:
        """Lists templates of resources."""
        ...

    async def read_resource(self, uri: str) -> Any:
        """Reads a resource."""
        ...

    async def list_prompts(self) -> list[Any]:
        """Lists prompts."""
        ...

    async def get_prompt(self, name: str, arguments: dict[str, str]) -> Any:
        """Asks for a prompt."""
        ...


def connect(server: object, hears_logs: HearsLogs) -> AbstractAsyncContextManager[ServerClient]:
    """Connects to a server of either package.

    Raises:
        TypeError: it is no such server.
    """
    packages = {base.__module__.partition(".")[0] for base in type(server).__mro__}
    if "fastmcp" in packages:
        return _fastmcp(server, hears_logs)
    if "mcp" in packages:
        return _mcp2(server, hears_logs) if _major("mcp") >= 2 else _mcp1(server, hears_logs)
    raise TypeError(
        f"mcp_server is {type(server).__name__}; it has to be a server of the package `mcp` or "
        "`fastmcp`"
    )


class FastMCPClient:
    """Client of `fastmcp` 3 and 4. Implements `ServerClient`."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def list_tools(self) -> list[Any]:
        """See `ServerClient`."""
        return list(await self._client.list_tools())

    async def call_tool(
        self, name: str, arguments: dict[str, JsonValue], hears: HearsProgress | None
    ) -> Any:
        """See `ServerClient`."""
        return await self._client.call_tool_mcp(name, arguments, progress_handler=hears)

    async def list_resources(self) -> list[Any]:
        """See `ServerClient`."""
        return list(await self._client.list_resources())

    async def list_templates(self) -> list[Any]:
        """See `ServerClient`."""
        return list(await self._client.list_resource_templates())

    async def read_resource(self, uri: str) -> Any:
        """See `ServerClient`."""
        return await self._client.read_resource_mcp(uri)

    async def list_prompts(self) -> list[Any]:
        """See `ServerClient`."""
        return list(await self._client.list_prompts())

    async def get_prompt(self, name: str, arguments: dict[str, str]) -> Any:
        """See `ServerClient`."""
        return await self._client.get_prompt_mcp(name, arguments)


class _MCPClient:
    """Client of `mcp` 2, or client session of `mcp` 1. Implements `ServerClient`."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def list_tools(self) -> list[Any]:
        return await _pages(self._client.list_tools, "tools")

    async def call_tool(
        self, name: str, arguments: dict[str, JsonValue], hears: HearsProgress | None
    ) -> Any:
        return await self._client.call_tool(name, arguments, progress_callback=hears)

    async def list_resources(self) -> list[Any]:
        return await _pages(self._client.list_resources, "resources")

    async def list_templates(self) -> list[Any]:
        return await _pages(self._client.list_resource_templates, "resourceTemplates")

    async def read_resource(self, uri: str) -> Any:
        return await self._client.read_resource(uri)

    async def list_prompts(self) -> list[Any]:
        return await _pages(self._client.list_prompts, "prompts")

    async def get_prompt(self, name: str, arguments: dict[str, str]) -> Any:
        return await self._client.get_prompt(name, arguments)


async def _pages(ask: Callable[..., Awaitable[Any]], key: str) -> list[Any]:
    """Asks for a list, page by page. Returns the entries as MCP writes them."""
    page = dump(await ask())
    entries: list[Any] = page[key]
    while cursor := page.get("nextCursor"):
        page = dump(await ask(cursor=cursor))
        entries.extend(page[key])
    return entries


@asynccontextmanager
async def _fastmcp(server: object, hears_logs: HearsLogs) -> AsyncIterator[ServerClient]:
    package = importlib.import_module("fastmcp")
    # The stateless protocol of 2026-07-28 would forget what a tool keeps in its session.
    options = {"mode": "legacy"} if _major("fastmcp") >= 4 else {}
    async with package.Client(server, log_handler=hears_logs, **options) as client:
        yield FastMCPClient(client)


@asynccontextmanager
async def _mcp2(server: object, hears_logs: HearsLogs) -> AsyncIterator[ServerClient]:
    package = importlib.import_module("mcp")
    async with package.Client(server, mode="legacy", logging_callback=hears_logs) as client:
        yield _MCPClient(client)


@asynccontextmanager
async def _mcp1(server: object, hears_logs: HearsLogs) -> AsyncIterator[ServerClient]:
    memory = importlib.import_module("mcp.shared.memory")
    connected = memory.create_connected_server_and_client_session
    async with connected(server, logging_callback=hears_logs) as client:
        yield _MCPClient(client)


def _major(package: str) -> int:
    return int(importlib.metadata.version(package).partition(".")[0])


def dump(model: Any) -> dict[str, JsonValue]:
    """Writes one of their models as MCP does: both majors of the packages agree there."""
    if isinstance(model, dict):
        return model
    dumped: dict[str, JsonValue] = model.model_dump(mode="json", by_alias=True)
    return dumped
