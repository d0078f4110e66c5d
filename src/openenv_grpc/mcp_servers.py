"""Servers of the packages `mcp` and `fastmcp` as a source of tools: all that is known of these."""

from __future__ import annotations

import importlib
import importlib.metadata
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol

from openenv_grpc.errors import InvalidArgumentsError, ToolNotFoundError, Violation
from openenv_grpc.tools import ToolAnswer, ToolInfo
from openenv_grpc.tools.answers import failure
from openenv_grpc.types import JsonValue

_REFUSED = re.compile(
    r"(Error executing tool \S+: )?\d+ validation errors? for (call\[.*\]|\w+Arguments)\n"
    r"|Input validation error: "
)
"""How these servers say that arguments do not fit; they have no code for it."""
_VIOLATION = re.compile(r"^(\S+)\n  (.+) \[type=(\w+),", re.MULTILINE)


class _Client(Protocol):
    """What the clients of both packages can be made to look like. Their models stay theirs."""

    async def list_tools(self) -> list[Any]: ...

    async def call_tool(self, name: str, arguments: dict[str, JsonValue]) -> Any: ...


class ServerSession:
    """One client's session with a server that runs in this process."""

    def __init__(self, client: _Client) -> None:
        self._client = client
        self._known: dict[str, ToolInfo] = {}

    async def list_tools(self) -> list[ToolInfo]:
        """Lists the server's tools, in its order."""
        tools = [_tool_info(tool) for tool in await self._client.list_tools()]
        self._known = {tool.name: tool for tool in tools}
        return tools

    async def call_tool(self, name: str, arguments: Mapping[str, JsonValue]) -> ToolAnswer:
        """Calls a tool. One that fails answers so.

        Raises:
            ToolNotFoundError: the server has no such tool.
            InvalidArgumentsError: the arguments do not fit.
        """
        if name not in self._known:
            await self.list_tools()
        if name not in self._known:
            raise ToolNotFoundError(f"Unknown tool: {name!r}")
        try:
            result = await self._client.call_tool(name, dict(arguments))
        except Exception as error:  # a server may fail in any way
            return failure(f"Error calling tool {name!r}: {error}")
        answer = _answer(result, self._known[name])
        if answer.is_error and _REFUSED.match(answer.text()):
            raise _invalid_arguments(name, answer.text())
        return answer


def open_session(server: object) -> AbstractAsyncContextManager[ServerSession]:
    """Connects to a server of either package, of any version that we know.

    Raises:
        TypeError: it is no such server.
    """
    packages = {base.__module__.partition(".")[0] for base in type(server).__mro__}
    if "fastmcp" in packages:
        return _fastmcp_session(server)
    if "mcp" in packages:
        return _mcp_session(server) if _major("mcp") >= 2 else _mcp1_session(server)
    raise TypeError(
        f"mcp_server is {type(server).__name__}; it has to be a server of the package `mcp` or "
        "`fastmcp`"
    )


class _FastMCPClient:
    """Client of `fastmcp` 3 and 4."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def list_tools(self) -> list[Any]:
        return list(await self._client.list_tools())

    async def call_tool(self, name: str, arguments: dict[str, JsonValue]) -> Any:
        return await self._client.call_tool_mcp(name, arguments)


class _MCPClient:
    """Client of `mcp` 2, or client session of `mcp` 1."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def list_tools(self) -> list[Any]:
        result = await self._client.list_tools()
        tools = list(result.tools)
        while cursor := _dump(result).get("nextCursor"):
            result = await self._client.list_tools(cursor=cursor)
            tools.extend(result.tools)
        return tools

    async def call_tool(self, name: str, arguments: dict[str, JsonValue]) -> Any:
        return await self._client.call_tool(name, arguments)


@asynccontextmanager
async def _fastmcp_session(server: object) -> AsyncIterator[ServerSession]:
    package = importlib.import_module("fastmcp")
    # The stateless protocol of 2026-07-28 would forget what a tool keeps in its session.
    options = {"mode": "legacy"} if _major("fastmcp") >= 4 else {}
    async with package.Client(server, **options) as client:
        yield ServerSession(_FastMCPClient(client))


@asynccontextmanager
async def _mcp_session(server: object) -> AsyncIterator[ServerSession]:
    package = importlib.import_module("mcp")
    async with package.Client(server, mode="legacy") as client:
        yield ServerSession(_MCPClient(client))


@asynccontextmanager
async def _mcp1_session(server: object) -> AsyncIterator[ServerSession]:
    memory = importlib.import_module("mcp.shared.memory")
    async with memory.create_connected_server_and_client_session(server) as client:
        yield ServerSession(_MCPClient(client))


def _major(package: str) -> int:
    return int(importlib.metadata.version(package).partition(".")[0])


def _dump(model: Any) -> dict[str, JsonValue]:
    """Writes one of their models as MCP does: both majors of the packages agree there."""
    dumped: dict[str, JsonValue] = model.model_dump(mode="json", by_alias=True)
    return dumped


def _tool_info(tool: Any) -> ToolInfo:
    fields = _dump(tool)
    return ToolInfo(
        name=fields["name"],
        title=fields.get("title"),
        description=fields.get("description") or "",
        input_schema=fields["inputSchema"],
        output_schema=fields.get("outputSchema"),
        annotations=fields.get("annotations"),
        icons=fields.get("icons"),
        meta=fields.get("_meta"),
        execution=fields.get("execution"),
    )


def _answer(result: Any, tool: ToolInfo) -> ToolAnswer:
    fields = _dump(result)
    structured = fields.get("structuredContent")
    return ToolAnswer(
        content=[
            {name: part for name, part in block.items() if part is not None}
            for block in fields["content"]
        ],
        structured_content=structured,
        data=structured["result"] if structured and _wraps(tool, fields) else structured,
        meta=fields.get("_meta"),
        is_error=bool(fields.get("isError")),
    )


def _wraps(tool: ToolInfo, result: dict[str, JsonValue]) -> bool:
    """Tells whether a server put a value into `{"result": …}` that is no object."""
    schema = tool.output_schema or {}
    return (
        "x-fastmcp-wrap-result" in schema
        or ((result.get("_meta") or {}).get("fastmcp") or {}).get("wrap_result") is True
        or (schema.get("title") == f"{tool.name}Output" and [*schema["properties"]] == ["result"])
    )


def _invalid_arguments(name: str, text: str) -> InvalidArgumentsError:
    found = tuple(
        Violation(path="/" + path.replace(".", "/"), type=kind, message=message)
        for path, message, kind in _VIOLATION.findall(text)
    )
    told = "; ".join(f"{each.path[1:]}: {each.message}" for each in found)
    told = told or text.removeprefix("Input validation error: ")
    return InvalidArgumentsError(f"Invalid arguments for tool {name!r}: {told}", violations=found)
