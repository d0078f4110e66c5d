"""What is offered to agents by environments that have more than ours do: an MCP client or server.

Those are written against the reference. All of this is awaited on the event loop.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from openenv_grpc.engine import adapt
from openenv_grpc.engine.adapt import ToolPath
from openenv_grpc.errors import ToolNotFoundError
from openenv_grpc.mcp_clients import FastMCPClient
from openenv_grpc.mcp_servers import ServerSession
from openenv_grpc.serialization import to_plain
from openenv_grpc.tools import (
    PromptAnswer,
    PromptInfo,
    ResourceList,
    ResourceRead,
    ToolAnswer,
    ToolInfo,
)
from openenv_grpc.tools.answers import answer_of, failure
from openenv_grpc.tools.library import no_such_prompt, no_such_resource
from openenv_grpc.types import JsonValue


async def list_tools(environment: Any, path: ToolPath) -> list[ToolInfo]:
    """Lists an environment's tools."""
    if path is ToolPath.CLIENT:
        own = adapt.mode_tools(environment)
        listed = [_described(tool) for tool in await environment.mcp_client.list_tools()]
        return [tool for tool in listed if tool.name not in own] + [
            ToolInfo(
                name=name,
                description=described["description"],
                input_schema=described["input_schema"],
            )
            for name, (described, _) in own.items()
        ]
    return [
        ToolInfo(
            name=tool.name, description=tool.description or "", input_schema=tool.parameters or {}
        )
        for tool in (await _server_tools(environment.mcp_server)).values()
    ]


async def call_tool(
    environment: Any, path: ToolPath, name: str, arguments: Mapping[str, JsonValue]
) -> ToolAnswer:
    """Calls a tool. One that fails answers with `is_error`.

    Raises:
        ToolNotFoundError: there is no tool of that name.
    """
    if path is ToolPath.CLIENT:
        own = adapt.mode_tools(environment)
        if name in own:
            return await _call(own[name][1], arguments, wrap=True)
        return await _ask_client(environment.mcp_client, name, arguments)
    tools = await _server_tools(environment.mcp_server)
    if name not in tools:
        raise ToolNotFoundError(f"Tool not found: {name}")
    return await _call(tools[name].fn, arguments, wrap=False)


def session_with(environment: Any, path: ToolPath) -> ServerSession | None:
    """Returns what reads resources and prompts of an environment that has a client of a server."""
    if path is not ToolPath.CLIENT:
        return None
    return ServerSession(FastMCPClient(environment.mcp_client))


async def list_resources(session: ServerSession | None) -> ResourceList:
    """Lists resources."""
    return ResourceList() if session is None else await session.list_resources()


async def read_resource(session: ServerSession | None, uri: str) -> ResourceRead:
    """Reads a resource. Raises `ResourceNotFoundError`."""
    if session is None:
        raise no_such_resource(uri)
    return await session.read_resource(uri)


async def list_prompts(session: ServerSession | None) -> list[PromptInfo]:
    """Lists prompts."""
    return [] if session is None else await session.list_prompts()


async def get_prompt(
    session: ServerSession | None, name: str, arguments: Mapping[str, JsonValue]
) -> PromptAnswer:
    """Asks for a prompt. Raises `InvalidArgumentsError`."""
    if session is None:
        raise no_such_prompt(name)
    return await session.get_prompt(name, arguments)


async def _call(
    function: Callable[..., Any], arguments: Mapping[str, JsonValue], *, wrap: bool
) -> ToolAnswer:
    try:
        value = function(**arguments)
        return answer_of(await value if inspect.isawaitable(value) else value, wrap=wrap)
    except Exception as error:  # a tool may raise anything
        return failure(str(error))


async def _ask_client(client: Any, name: str, arguments: Mapping[str, JsonValue]) -> ToolAnswer:
    try:
        result = await client.call_tool(name, dict(arguments))
    except Exception as error:  # the client raises for what the tool raised, and for much else
        if all(tool.name != name for tool in await client.list_tools()):
            raise ToolNotFoundError(str(error)) from error
        return failure(str(error))
    return ToolAnswer(
        content=[
            block.model_dump(mode="json", by_alias=True, exclude_none=True)
            for block in result.content
        ],
        structured_content=result.structured_content,
        data=to_plain(result.data),
        meta=result.meta,
        is_error=result.is_error,
    )


async def _server_tools(server: Any) -> dict[str, Any]:
    listed = await server.list_tools()
    return {tool.name: tool for tool in listed}


def _described(tool: Any) -> ToolInfo:
    fields = tool.model_dump(mode="json", by_alias=True)
    return ToolInfo(
        name=fields["name"],
        description=fields.get("description") or "",
        input_schema=fields.get("inputSchema") or {},
        title=fields.get("title"),
        output_schema=fields.get("outputSchema"),
        annotations=fields.get("annotations"),
        icons=fields.get("icons"),
        meta=fields.get("_meta"),
        execution=fields.get("execution"),
    )
