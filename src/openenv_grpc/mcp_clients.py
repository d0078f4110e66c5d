"""Clients of the packages `mcp` and `fastmcp`, of any version that we know, made to look alike."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol

from openenv_grpc.mcp_models import Answers, Asked, dump, major_version
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


def connect(
    server: object, hears_logs: HearsLogs, answers: Answers
) -> AbstractAsyncContextManager[ServerClient]:
    """Connects to a server of either package, by a client that can be asked for all.

    Raises:
        TypeError: it is no such server.
    """
    packages = {base.__module__.partition(".")[0] for base in type(server).__mro__}
    if "fastmcp" in packages:
        return _fastmcp(server, hears_logs, answers)
    if "mcp" in packages:
        connected = _mcp2 if major_version("mcp") >= 2 else _mcp1
        return connected(server, hears_logs, answers)
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
async def _fastmcp(
    server: object, hears_logs: HearsLogs, answers: Answers
) -> AsyncIterator[ServerClient]:
    package = importlib.import_module("fastmcp")
    asked = Asked(answers)
    # The stateless protocol of 2026-07-28 would forget what a tool keeps in its session.
    options = {"mode": "legacy"} if major_version("fastmcp") >= 4 else {}
    async with package.Client(
        server,
        log_handler=hears_logs,
        elicitation_handler=asked.elicit_of_fastmcp,
        sampling_handler=asked.sample_of_fastmcp,
        roots=lambda context: asked.roots_of_fastmcp(context),  # fastmcp 3 takes no methods
        **options,
    ) as client:
        yield FastMCPClient(client)


@asynccontextmanager
async def _mcp2(
    server: object, hears_logs: HearsLogs, answers: Answers
) -> AsyncIterator[ServerClient]:
    package = importlib.import_module("mcp")
    callbacks = {"logging_callback": hears_logs, **Asked(answers).callbacks()}
    async with package.Client(server, mode="legacy", **callbacks) as client:
        yield _MCPClient(client)


@asynccontextmanager
async def _mcp1(
    server: object, hears_logs: HearsLogs, answers: Answers
) -> AsyncIterator[ServerClient]:
    memory = importlib.import_module("mcp.shared.memory")
    connected = memory.create_connected_server_and_client_session
    callbacks = {"logging_callback": hears_logs, **Asked(answers).callbacks()}
    async with connected(server, **callbacks) as client:
        yield _MCPClient(client)
