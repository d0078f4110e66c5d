"""The same MCP server, made with whatever packages are installed here."""

from __future__ import annotations

import asyncio
import importlib
import importlib.metadata
from collections.abc import Callable, Mapping
from typing import Any


def major(package: str) -> int:
    return int(importlib.metadata.version(package).partition(".")[0])


def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


def boom(reason: str) -> str:
    """Always raises."""
    raise ValueError(f"boom: {reason}")


async def nap() -> str:
    """Never answers."""
    await asyncio.Event().wait()
    return "rested"


def record() -> dict[str, Any]:
    """Return a small object."""
    return {"k": [1, 2], "s": "t"}


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    function.__name__: function for function in (add, boom, nap, record)
}


def fastmcp_server(functions: Mapping[str, Callable[..., Any]] = FUNCTIONS) -> Any:
    server = importlib.import_module("fastmcp").FastMCP("tools")
    for name, function in functions.items():
        server.tool(function, name=name)
    return server


def mcp_server(functions: Mapping[str, Callable[..., Any]] = FUNCTIONS) -> Any:
    if major("mcp") >= 2:
        server = importlib.import_module("mcp.server").MCPServer("tools")
    else:
        server = importlib.import_module("mcp.server.fastmcp").FastMCP("tools")
    for name, function in functions.items():
        server.tool(name=name)(function)
    return server


SERVERS = {
    f"fastmcp-{major('fastmcp')}": fastmcp_server,
    f"mcp-{major('mcp')}": mcp_server,
}
"""How to make a server, by package and version."""


def context_class(server: Any) -> type:
    """The class by whose annotation a tool of a server gets its context."""
    found: type = importlib.import_module(type(server).__module__.removesuffix(".server")).Context
    return found
