"""Answers over HTTP: JSON where there is one thing to tell, a stream of events for more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import aclosing

from aiohttp import hdrs, web

from openenv_bridge.mcp.exchange import Answered, Told
from openenv_bridge.responses import json_response

KEEP_ALIVE_S = 15.0
"""How long nothing may be told before a client is told just that, so that proxies wait on."""
EVENT_STREAM = "text/event-stream"

Outlives = Callable[[asyncio.Task[None]], None]
"""Keeps a task that goes on when its client has gone."""


def accepts(request: web.Request, kind: str) -> bool:
    """Tells whether a client takes answers of a kind. Whoever names none takes JSON."""
    header = request.headers.get(hdrs.ACCEPT)
    if header is None:
        return kind != EVENT_STREAM
    listed = {part.partition(";")[0].strip().lower() for part in header.split(",")}
    return not listed.isdisjoint({kind, "*/*", kind.partition("/")[0] + "/*"})


def _always_200(answered: Answered) -> int:
    return 200


class HttpAnswer:
    """One response to a call."""

    def __init__(
        self,
        request: web.Request,
        *,
        headers: Mapping[str, str] | None = None,
        outlives: Outlives | None = None,
        status_of: Callable[[Answered], int] = _always_200,
        opens: bool = False,
    ) -> None:
        """Describes a response. Without `outlives` a client that goes cancels its call.

        One that `opens` is a stream of events whatever is told, and begins at once.
        """
        self._opens = opens
        self._status_of = status_of
        self._request = request
        self._headers = dict(headers or {})
        self._outlives = outlives
        self.streams = EVENT_STREAM in request.headers.get(hdrs.ACCEPT, "").lower()
        """Whether more than the answer can be told."""
        self._only_streams = self.streams and not accepts(request, "application/json")
        self._stream: web.StreamResponse | None = None

    async def send(self, told: Told) -> web.StreamResponse:
        """Answers with what is told."""
        queue: asyncio.Queue[bytes | Answered | Exception] = asyncio.Queue()
        pump = asyncio.create_task(_pump(told, queue))
        if self._outlives is not None:
            self._outlives(pump)
        try:
            return await self._send(queue)
        finally:
            if self._outlives is None and not pump.done():
                pump.cancel()
                await asyncio.gather(pump, return_exceptions=True)

    async def _send(self, queue: asyncio.Queue[bytes | Answered | Exception]) -> web.StreamResponse:
        if self._opens:
            await self._opened()
        while True:
            try:
                async with asyncio.timeout(KEEP_ALIVE_S):
                    told = await queue.get()
            except TimeoutError:
                if self.streams or self._opens:
                    await (await self._opened()).write(b":\r\n\r\n")
                continue
            match told:
                case bytes():
                    if self.streams or self._opens:
                        await (await self._opened()).write(_event(told))
                case Answered():
                    return await self._end(told)
                case _:
                    raise told

    async def _end(self, answered: Answered) -> web.StreamResponse:
        status = self._status_of(answered)
        if self._stream is None and not (self._only_streams and status == 200):
            response = json_response(answered.content, status=status)
            response.headers.update(self._headers)
            return response
        stream = await self._opened()
        if answered.content:
            await stream.write(_event(answered.content))
        await stream.write_eof()
        return stream

    async def _opened(self) -> web.StreamResponse:
        if self._stream is None:
            stream = web.StreamResponse(
                headers={
                    hdrs.CONTENT_TYPE: EVENT_STREAM,
                    hdrs.CACHE_CONTROL: "no-cache, no-transform",
                    "X-Accel-Buffering": "no",
                    **self._headers,
                }
            )
            await stream.prepare(self._request)
            self._stream = stream
        return self._stream


async def _pump(told: Told, queue: asyncio.Queue[bytes | Answered | Exception]) -> None:
    try:
        async with aclosing(told):
            async for each in told:
                queue.put_nowait(each)
    except Exception as error:  # it is raised where the answer is waited for
        queue.put_nowait(error)


def _event(content: bytes) -> bytes:
    return b"event: message\r\ndata: " + content + b"\r\n\r\n"
