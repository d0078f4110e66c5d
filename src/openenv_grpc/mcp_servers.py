"""Servers of the packages `mcp` and `fastmcp` as a source of tools, resources and prompts."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any

from openenv_grpc.errors import (
    ClientAnswerError,
    ClientCapabilityError,
    InvalidArgumentsError,
    ToolNotFoundError,
    Violation,
)
from openenv_grpc.mcp_clients import ServerClient, connect
from openenv_grpc.mcp_models import dump
from openenv_grpc.tools import (
    PromptAnswer,
    PromptArgument,
    PromptInfo,
    ResourceInfo,
    ResourceList,
    ResourceRead,
    ToolAnswer,
    ToolInfo,
    ToolLog,
    ToolProgress,
)
from openenv_grpc.tools.answers import failure
from openenv_grpc.tools.asking import ANSWER_TIMEOUT_S, CAPABILITIES, Desk, Question, desk
from openenv_grpc.tools.library import no_such_prompt, no_such_resource
from openenv_grpc.tools.notices import LOG_LEVELS, LogLevel, Tell, listener
from openenv_grpc.types import JsonValue

_REFUSED = re.compile(
    r"(Error executing tool \S+: )?\d+ validation errors? for (call\[.*\]|\w+Arguments)\n"
    r"|Input validation error: "
)
"""How these servers say that arguments do not fit; they have no code for it."""
_VIOLATION = re.compile(r"^(\S+)\n  (.+) \[type=(\w+),", re.MULTILINE)
_NO_RESOURCE = re.compile(r"Resource not found|Unknown resource")
_ARGUMENTS_MISSING = re.compile(r"Missing required arguments: .+")


class ServerSession:
    """One client's session with a server that runs in this process."""

    def __init__(self, client: ServerClient, caller: Caller | None = None) -> None:
        self._client = client
        self._caller = caller or Caller()
        self._known: dict[str, ToolInfo] = {}

    async def list_tools(self) -> list[ToolInfo]:
        """Lists the server's tools, in its order."""
        tools = [_tool_info(dump(tool)) for tool in await self._client.list_tools()]
        self._known = {tool.name: tool for tool in tools}
        return tools

    async def call_tool(self, name: str, arguments: Mapping[str, JsonValue]) -> ToolAnswer:
        """Calls a tool. One that fails answers so. Who listens hears its progress and its logs.

        Raises:
            ToolNotFoundError: the server has no such tool.
            InvalidArgumentsError: the arguments do not fit.
            ClientCapabilityError: it asks for what its caller's client does not offer.
        """
        if name not in self._known:
            await self.list_tools()
        if name not in self._known:
            raise ToolNotFoundError(f"Unknown tool: {name!r}")
        with self._caller.calling() as tell:
            hears = None if tell is None else _progress_teller(tell)
            try:
                result = await self._client.call_tool(name, dict(arguments), hears)
                answer = _answer(result, self._known[name])
            except Exception as error:  # a server may fail in any way
                answer = failure(f"Error calling tool {name!r}: {error}")
        if answer.is_error and self._caller.refused is not None:
            raise self._caller.refused
        if answer.is_error and _REFUSED.match(answer.text()):
            raise _invalid_arguments(name, answer.text())
        return answer

    async def list_resources(self) -> ResourceList:
        """Lists the server's resources and their templates."""
        resources = await self._client.list_resources()
        templates = await self._client.list_templates()
        return ResourceList(
            resources=[_resource_info(dump(each), "uri") for each in resources],
            templates=[_resource_info(dump(each), "uriTemplate") for each in templates],
        )

    async def read_resource(self, uri: str) -> ResourceRead:
        """Reads a resource.

        Raises:
            ResourceNotFoundError: the server has no such resource.
        """
        try:
            result = dump(await self._client.read_resource(uri))
        except Exception as error:  # these servers have no code for it that all of them use
            if _NO_RESOURCE.match(str(error)):
                raise no_such_resource(uri) from error
            raise
        contents = [_without_nulls(content) for content in result["contents"]]
        return ResourceRead(contents=contents, meta=result.get("_meta"))

    async def list_prompts(self) -> list[PromptInfo]:
        """Lists the server's prompts."""
        return [_prompt_info(dump(prompt)) for prompt in await self._client.list_prompts()]

    async def get_prompt(self, name: str, arguments: Mapping[str, JsonValue]) -> PromptAnswer:
        """Asks for a prompt.

        Raises:
            InvalidArgumentsError: the server has no such prompt, or arguments are missing.
        """
        if all(prompt.name != name for prompt in await self.list_prompts()):
            raise no_such_prompt(name)
        texts = {key: str(value) for key, value in arguments.items()}
        try:
            result = dump(await self._client.get_prompt(name, texts))
        except Exception as error:  # these servers have no code for it that all of them use
            missing = _ARGUMENTS_MISSING.search(str(error))
            if missing:
                text = f"Invalid arguments for prompt {name!r}: {missing[0]}"
                raise InvalidArgumentsError(text) from error
            raise
        return PromptAnswer(
            messages=[
                {"role": message["role"], "content": _without_nulls(message["content"])}
                for message in result["messages"]
            ],
            description=result.get("description") or "",
            meta=result.get("_meta"),
        )


class Caller:
    """Who calls the tool of a server that runs: hears its logs, and is asked what it asks."""

    def __init__(self) -> None:
        self._tell: Tell | None = None
        self._desk: Desk | None = None
        self.refused: ClientCapabilityError | None = None
        """Set if the tool asked for what the caller's client does not offer."""

    @contextmanager
    def calling(self) -> Iterator[Tell | None]:
        """Has the tool that is called reach who calls it; gives who hears, if anybody does."""
        self._tell, self._desk, self.refused = listener(), desk(), None
        try:
            yield self._tell
        finally:
            self._tell = self._desk = None

    async def take_log(self, message: Any) -> None:
        """Takes what the server logs, when nobody listens too."""
        if self._tell is not None:
            level: LogLevel = message.level if message.level in LOG_LEVELS else "info"
            self._tell(ToolLog(level=level, data=message.data, logger=message.logger or ""))

    async def answer(self, method: str, params: dict[str, JsonValue]) -> JsonValue:
        """Asks the caller's client what the server asks.

        Raises:
            ClientCapabilityError, ClientAnswerError.
        """
        if params.get("mode") == "url":
            raise ClientAnswerError("no client is asked to open pages; ask by a form")
        at = self._desk or desk()
        try:
            asked = at.put(CAPABILITIES[method], params, "")
        except ClientCapabilityError as error:
            self.refused = error
            raise
        return await Question(at, asked, _same, ANSWER_TIMEOUT_S)


def _same(result: JsonValue) -> JsonValue:
    return result


def _progress_teller(tell: Tell) -> Any:
    async def take(progress: float, total: float | None, message: str | None) -> None:
        tell(ToolProgress(progress=progress, total=total, message=message or ""))

    return take


def open_session(server: object) -> AbstractAsyncContextManager[ServerSession]:
    """Connects to a server of either package, of any version that we know.

    Raises:
        TypeError: it is no such server.
    """
    caller = Caller()
    return _session(connect(server, caller.take_log, caller.answer), caller)


@asynccontextmanager
async def _session(
    connected: AbstractAsyncContextManager[ServerClient], caller: Caller
) -> AsyncIterator[ServerSession]:
    async with connected as client:
        yield ServerSession(client, caller)


def _tool_info(fields: dict[str, JsonValue]) -> ToolInfo:
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
    fields = dump(result)
    structured = fields.get("structuredContent")
    return ToolAnswer(
        content=[_without_nulls(block) for block in fields["content"]],
        structured_content=structured,
        data=structured["result"] if structured and _wraps(tool, fields) else structured,
        meta=fields.get("_meta"),
        is_error=bool(fields.get("isError")),
    )


def _without_nulls(fields: dict[str, JsonValue]) -> dict[str, JsonValue]:
    return {name: part for name, part in fields.items() if part is not None}


def _resource_info(fields: dict[str, JsonValue], uri: str) -> ResourceInfo:
    return ResourceInfo(
        uri=fields[uri],
        name=fields["name"],
        title=fields.get("title"),
        description=fields.get("description") or "",
        mime_type=fields.get("mimeType"),
        size_bytes=fields.get("size"),
        annotations=fields.get("annotations"),
        icons=fields.get("icons"),
        meta=fields.get("_meta"),
    )


def _prompt_info(fields: dict[str, JsonValue]) -> PromptInfo:
    return PromptInfo(
        name=fields["name"],
        title=fields.get("title"),
        description=fields.get("description") or "",
        arguments=[
            PromptArgument(
                name=argument["name"],
                description=argument.get("description") or "",
                required=bool(argument.get("required")),
            )
            for argument in fields.get("arguments") or ()
        ],
        icons=fields.get("icons"),
        meta=fields.get("_meta"),
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
