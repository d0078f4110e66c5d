"""MCP over standard input and output, relayed to a server's `/mcp`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp

from openenv_bridge.mcp import messages
from openenv_bridge.mcp.codec import HANDLE_META, OBSERVATION_URI
from openenv_bridge.mcp.envelope import (
    METHOD_HEADER,
    NAME_HEADER,
    NAMED_BY,
    VERSION_HEADER,
    VERSION_META,
    header_value,
)
from openenv_bridge.mcp.http_answers import EVENT_STREAM
from openenv_bridge.mcp.legacy import SESSION_HEADER
from openenv_bridge.mcp.messages import (
    HEADER_MISMATCH,
    SESSION_ERROR,
    Answer,
    Call,
    CallId,
    McpError,
    Message,
    Notification,
)
from openenv_bridge.mcp.mirrored import Declared, declared, mirrored
from openenv_bridge.mcp_methods import CLOSE
from openenv_grpc.types import JsonValue

Write = Callable[[bytes], None]
"""Writes one message, as a line."""


class Relay:
    """Hands what a client writes to a server, and what that answers to the client."""

    def __init__(self, http: aiohttp.ClientSession, url: str, write: Write) -> None:
        self._http = http
        self._url = url
        self._write = write
        self._session: dict[str, str] = {}  # the headers that name it
        self._handle = ""  # what names it in versions without such headers
        self._declared: Declared = {}  # by tools, of arguments that stand in headers too
        self._initialize: Call | None = None
        self._beginning = asyncio.Lock()  # one session begins in the place of one that was lost
        self._has_begun = asyncio.Event()  # since the last that was listened to
        self._calls: dict[CallId, asyncio.Task[None]] = {}

    async def run(self, lines: AsyncIterator[bytes]) -> None:
        """Relays line by line until there are no more; then ends the session."""
        try:
            async with asyncio.TaskGroup() as group:
                listening = group.create_task(self._listen())
                async for line in lines:
                    if line.strip():
                        await self._take(line, group)
                for task in (listening, *self._calls.values()):
                    task.cancel()  # nobody reads the answers any more
        finally:
            await self._end()

    async def _take(self, line: bytes, group: asyncio.TaskGroup) -> None:
        try:
            message = messages.read(messages.parse(line))
        except McpError as refused:
            self._write(refused.written())
            return
        match message:
            case Call(method="initialize"):
                self._initialize = message
                # All others need the session that this begins.
                self._write(await self._begin(message))
            case Call():
                message = await self._in_session(message)
                task = group.create_task(self._send(message))
                self._calls[message.id] = task
                task.add_done_callback(lambda _: self._calls.pop(message.id, None))
            case Notification(method="notifications/cancelled") if not self._session:
                self._hang_up(message.params.get("requestId"))
            case Notification() | Answer():
                group.create_task(self._send(message))

    async def _in_session(self, call: Call) -> Call:
        """Has a call of a version without sessions mean one all the same: this client's."""
        if not isinstance(call.meta.get(VERSION_META), str):
            return call
        if not self._handle:
            self._handle = await self._begun(call)
        if not self._handle:
            return call  # the server tells what is wrong
        meta = {HANDLE_META: self._handle, **call.meta}
        return Call(id=call.id, method=call.method, params={**call.params, "_meta": meta})

    async def _begun(self, call: Call) -> str:
        """Begins a session by reading its first observation; returns its handle or empty text."""
        params = {"uri": OBSERVATION_URI, "_meta": call.meta}
        read = Call(id=0, method="resources/read", params=params)
        try:
            async with self._http.post(self._url, **_body(read)) as response:
                answer = messages.parse(await response.read())
        except (aiohttp.ClientError, TimeoutError, McpError):
            return ""
        match answer:
            case {"result": {"contents": [{"_meta": {**meta}}]}}:
                return str(meta.get(HANDLE_META, ""))
            case _:
                return ""

    def _hang_up(self, call_id: JsonValue) -> None:
        """Cancels a call of a version in which that is done by closing the response."""
        task = self._calls.get(call_id) if isinstance(call_id, str | int) else None
        if task is not None:
            task.cancel()

    async def _send(self, message: Message) -> None:
        try:
            await self._post(message)
        except (aiohttp.ClientError, TimeoutError) as error:
            if isinstance(message, Call):
                self._write(self._unreachable(message, error))

    async def _begin(self, call: Call) -> bytes:
        """Begins a session; returns the answer to `initialize`."""
        self._session = {}
        try:
            async with self._http.post(self._url, **_body(call)) as response:
                content = await response.read()
                answer = self._checked(call, content, response.status)
                if SESSION_HEADER in response.headers:
                    self._session = {
                        SESSION_HEADER: response.headers[SESSION_HEADER],
                        VERSION_HEADER: messages.parse(content)["result"]["protocolVersion"],
                    }
                    self._has_begun.set()
                return answer
        except (aiohttp.ClientError, TimeoutError) as error:
            return self._unreachable(call, error)

    async def _post(self, message: Message, *, again: bool = False) -> None:
        session = self._session
        body = _body(message, session=session, streams=True)
        if isinstance(message, Call):
            body["headers"] |= self._mirrored(message)
        async with self._http.post(self._url, **body) as response:
            if not isinstance(message, Call):
                return
            if response.status == 404 and session:
                await self._begin_anew(message, session)
            elif response.content_type == EVENT_STREAM:
                async for event in _events(response):
                    self._write(event)
            else:
                if response.status == 404 and HANDLE_META in message.meta:
                    self._handle = ""  # it is gone; the next call begins another
                content = await response.read()
                if not again and await self._learned(message, content):
                    await self._post(message, again=True)
                else:
                    self._write(self._checked(message, content, response.status))

    def _mirrored(self, message: Call) -> dict[str, str]:
        """Returns the headers that repeat arguments, which clients of a pipe know nothing of."""
        tool = message.params.get("name") if message.method == "tools/call" else None
        parameters = self._declared.get(tool, ()) if isinstance(tool, str) else ()
        return mirrored(parameters, message.params.get("arguments"))

    async def _learned(self, call: Call, content: bytes) -> bool:
        """Asks which arguments stand in headers, if a call was refused for those."""
        match _parsed(content) if call.method == "tools/call" else None:
            case {"error": {"code": code}} if code == HEADER_MISMATCH:
                pass
            case _:
                return False
        listing = Call(id=0, method="tools/list", params={"_meta": call.meta})
        async with self._http.post(self._url, **_body(listing)) as response:
            answer = _parsed(await response.read())
        match answer:
            case {"result": {"tools": [*tools]}}:
                self._declared = {
                    str(tool.get("name")): declared(tool.get("inputSchema")) for tool in tools
                }
                return True
            case _:
                return False

    async def _listen(self) -> None:
        """Hands on what is told between calls, in one session after another."""
        while True:
            await self._has_begun.wait()
            self._has_begun.clear()
            headers = {"Accept": EVENT_STREAM, **self._session}
            try:
                async with self._http.get(self._url, headers=headers) as response:
                    if response.content_type == EVENT_STREAM:  # else it tells nothing between them
                        async for event in _events(response):
                            self._write(event)
            except (aiohttp.ClientError, TimeoutError):  # the next call tells what is wrong
                task = asyncio.current_task()
                if task is not None and task.cancelling():  # it came in the cancellation's place
                    return

    async def _begin_anew(self, call: Call, lost: dict[str, str]) -> None:
        """Begins another session, since clients do not, and tells that the last one is over."""
        async with self._beginning:
            if self._session is lost and self._initialize is not None:
                await self._begin(self._initialize)
        told = "the session has ended on the server. Another has begun, with an episode of its own"
        self._write(messages.error(call.id, SESSION_ERROR, told))

    def _checked(self, call: Call, content: bytes, status: int) -> bytes:
        """Returns an answer, or what is to be told where something else was answered."""
        answer = _parsed(content)
        told = f"the server at {self._url} answered with HTTP status {status}"
        match answer:
            case {"jsonrpc": "2.0"}:
                return content
            case {"detail": str(detail)}:
                told = f"{told}: {detail}"
        return messages.error(call.id, SESSION_ERROR, told)

    def _unreachable(self, call: Call, error: Exception) -> bytes:
        told = f"the server at {self._url} cannot be reached: {error}"
        return messages.error(call.id, SESSION_ERROR, told)

    async def _end(self) -> None:
        try:
            if self._session:
                async with self._http.delete(self._url, headers=self._session):
                    return
            if self._handle:
                params: dict[str, JsonValue] = {"session_id": self._handle}
                closing = Call(id=0, method=CLOSE, params=params)
                async with self._http.post(self._url, **_body(closing)):
                    return
        except (aiohttp.ClientError, TimeoutError):
            return  # the server is gone, and the session with it


def _parsed(content: bytes) -> JsonValue:
    """Reads an answer; `None` if that is no JSON."""
    try:
        return messages.parse(content)
    except McpError:
        return None


def _body(
    message: Message, *, session: dict[str, str] | None = None, streams: bool = False
) -> dict[str, Any]:
    """Returns what a request is made of: the message, and the headers that tell of it."""
    headers = {
        "Content-Type": "application/json",
        "Accept": f"application/json, {EVENT_STREAM}" if streams else "application/json",
        **(_repeated(message) or session or {}),
    }
    return {"data": messages.written(message), "headers": headers}


def _repeated(message: Message) -> dict[str, str]:
    """Returns the headers that repeat what is in the body, in versions that ask for that."""
    if not isinstance(message, Call):
        return {}
    version = message.meta.get(VERSION_META)
    if not isinstance(version, str):
        return {}
    headers = {VERSION_HEADER: version, METHOD_HEADER: message.method}
    name = message.params.get(NAMED_BY.get(message.method, ""))
    return {**headers, NAME_HEADER: header_value(name)} if name else headers


async def _events(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Yields the data of events, each one message, in one line."""
    data = b""
    async for chunk in response.content.iter_any():
        data += chunk
        *lines, data = data.split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                yield line.removeprefix(b"data:").strip()
