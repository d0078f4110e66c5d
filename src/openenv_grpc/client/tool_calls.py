"""Tools of a session on a stream: by `ToolService` beside it, or by steps on it."""

from __future__ import annotations

import asyncio
import base64
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import grpc.aio

from openenv_grpc.client import tool_answers
from openenv_grpc.client.rpc_errors import error_of
from openenv_grpc.client.time_limits import TimeLimits
from openenv_grpc.errors import Effect, ProtocolViolationError, UnavailableError
from openenv_grpc.serialization import parse_json
from openenv_grpc.tools import Tool
from openenv_grpc.tracing import HEADER, TRACEPARENT
from openenv_grpc.types import JsonValue
from openenv_grpc.v1 import tool_pb2, tool_pb2_grpc
from openenv_grpc.wire import payloads

FIRST_DELAY_S = 0.05
LAST_DELAY_S = 2.0
"""How long is waited before a call is sent again: twice as long each time, up to the last."""

AnswerT = TypeVar("AnswerT")
AnswerT_co = TypeVar("AnswerT_co", covariant=True)


class ToolCaller:
    """Calls `ToolService` on the channel of a stream."""

    def __init__(
        self, channel: grpc.aio.Channel, *, target: str, metadata: tuple[tuple[str, str], ...]
    ) -> None:
        self._stub = tool_pb2_grpc.ToolServiceStub(channel)
        self._target = target
        self._metadata = metadata

    async def list_tools(self, session_id: str, *, limit_s: float) -> list[Tool]:
        """Lists a session's tools."""
        request = tool_pb2.ListToolsRequest(session_id=session_id)
        with self._errors_of_ours():
            response = await self._stub.ListTools(request, timeout=limit_s, metadata=self._sent())
        return [
            Tool(
                name=tool.name,
                description=tool.description,
                input_schema=parse_json(tool.input_schema_json or "{}", what="tool's schema"),
            )
            for tool in response.tools
        ]

    async def call_tool(
        self,
        session_id: str,
        name: str,
        arguments: Mapping[str, JsonValue],
        *,
        call_id: str,
        limit_s: float,
    ) -> JsonValue:
        """Calls a tool of a session, once however often that is repeated with the same id."""
        request = tool_pb2.CallToolRequest(session_id=session_id, tool_name=name, call_id=call_id)
        if arguments:
            payloads.encode_payload(request.arguments, arguments)
        call = self._stub.CallTool(request, timeout=limit_s, metadata=self._sent())
        with self._errors_of_ours():
            async for response in call:
                if response.HasField("result"):
                    return _read_result(name, response.result)
        raise ProtocolViolationError(f"{self._target} sent no result of the tool {name}")

    def _sent(self) -> tuple[tuple[str, str], ...]:
        traceparent = TRACEPARENT.get()
        return (*self._metadata, (HEADER, traceparent)) if traceparent else self._metadata

    @contextmanager
    def _errors_of_ours(self) -> Iterator[None]:
        try:
            yield
        except grpc.aio.AioRpcError as error:
            raise error_of(error, target=self._target) from error
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Nobody cancelled the caller: the channel was closed, since its stream was lost.
            raise UnavailableError(
                f"the connection to {self._target} was lost", effect=Effect.UNKNOWN
            ) from error


def _read_result(name: str, result: tool_pb2.ToolResult) -> JsonValue:
    data = payloads.decode_payload(result.structured) if result.HasField("structured") else None
    if isinstance(data, dict) and "tool_name" in data:
        return tool_answers.read_call(name, data)  # a step in disguise
    return tool_answers.read_result(
        name,
        {
            "content": [_block(content) for content in result.contents],
            "structured_content": _wrapped(data),
            "meta": None,
            "data": data,
            "is_error": result.failed,
        },
    )


def _wrapped(data: JsonValue) -> JsonValue:
    """Returns a tool's value as MCP structures it: in an object, where it is none."""
    return data if data is None or isinstance(data, dict) else {"result": data}


def _block(content: tool_pb2.ToolContent) -> JsonValue:
    match content.WhichOneof("kind"):
        case "text":
            return {"type": "text", "text": content.text, "annotations": None, "meta": None}
        case "image":
            return _media("image", content.image)
        case "audio":
            return _media("audio", content.audio)
        case _:
            return parse_json(content.block_json or "{}", what="tool's answer")


def _media(kind: str, content: tool_pb2.MediaContent) -> JsonValue:
    return {
        "type": kind,
        "data": base64.b64encode(content.data).decode("ascii"),
        "mimeType": content.mime_type,
        "annotations": None,
        "meta": None,
    }


class AskTools(Protocol[AnswerT_co]):
    """Asks something of a session's tools, or by its steps where there is no `ToolService`."""

    async def __call__(self, tools: ToolCaller | None, limit_s: float, /) -> AnswerT_co:
        """Asks, and waits no longer than the limit."""
        ...


class Stepper(Protocol):
    """A session that can step."""

    async def step(
        self,
        action: Mapping[str, JsonValue],
        keywords: Mapping[str, JsonValue],
        *,
        timeout_s: float | None,
    ) -> dict[str, Any]:
        """Applies an action and returns the payload of the observation."""
        ...


class ToolUser(Stepper, Protocol):
    """A session on a stream, whose tools can be called."""

    @property
    def id(self) -> str:
        """Names it."""
        ...

    @property
    def limits(self) -> TimeLimits:
        """How long its answers may take."""
        ...

    @property
    def resumes(self) -> bool:
        """Whether it outlives its stream."""
        ...

    async def tool_caller(self) -> ToolCaller | None:
        """Returns what calls tools, as soon as there is a stream to call them beside."""
        ...


async def list_tools(session: ToolUser) -> list[Tool]:
    """Lists a session's tools."""

    async def ask(tools: ToolCaller | None, limit_s: float) -> list[Tool]:
        if tools is None:
            return await list_by_step(session)
        return await tools.list_tools(session.id, limit_s=limit_s)

    return await _ask_again(ask, session)


async def call_tool(session: ToolUser, name: str, arguments: Mapping[str, JsonValue]) -> JsonValue:
    """Calls a tool. A call whose connection was lost is sent again, not done again."""
    call_id = secrets.token_hex(16)

    async def ask(tools: ToolCaller | None, limit_s: float) -> JsonValue:
        if tools is None:
            return await call_by_step(session, name, arguments)
        return await tools.call_tool(session.id, name, arguments, call_id=call_id, limit_s=limit_s)

    return await _ask_again(ask, session)


async def _ask_again(ask: AskTools[AnswerT], session: ToolUser) -> AnswerT:
    """Asks; and again, where the connection is lost and the session outlives that.

    What is asked has to be safe to repeat.
    """
    loop = asyncio.get_running_loop()
    give_up_at, delay_s = loop.time() + session.limits.other_s, FIRST_DELAY_S
    while True:
        tools = await session.tool_caller()
        try:
            return await ask(tools, max(0.0, give_up_at - loop.time()))
        except UnavailableError as error:
            lost = tools is None or error.session_lost  # no calls of their own, or no use
            if lost or not session.resumes or loop.time() + delay_s >= give_up_at:
                raise
        await asyncio.sleep(delay_s)  # the stream's loss is yet to be noticed
        delay_s = min(2 * delay_s, LAST_DELAY_S)


async def list_by_step(session: Stepper) -> list[Tool]:
    """Lists tools where there is no `ToolService`: over a WebSocket."""
    payload = await session.step({"type": "list_tools"}, {}, timeout_s=None)
    return tool_answers.read_listing(payload["observation"])


async def call_by_step(
    session: Stepper, name: str, arguments: Mapping[str, JsonValue]
) -> JsonValue:
    """Calls a tool where there is no `ToolService`. Counts as a step of the episode."""
    action = {"type": "call_tool", "tool_name": name, "arguments": dict(arguments)}
    payload = await session.step(action, {}, timeout_s=None)
    return tool_answers.read_call(name, payload["observation"])
