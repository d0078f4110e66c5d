"""Passes what an ASGI server receives through to the bridge, and its answers back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping
from contextlib import AsyncExitStack
from typing import Any

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from openenv_bridge import Bridge
from openenv_grpc.access import Access, environment_tokens
from openenv_grpc.definition import EnvironmentDefinition
from openenv_grpc.engine import SessionManager
from openenv_grpc.errors import ConfigurationError

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
"""Headers that mean one connection, not the message (RFC 9110, section 7.6.1)."""

NOT_PASSED_ON = HOP_BY_HOP | {b"host"}
"""The bridge is meant by the gateway's requests, whatever host its own clients mean."""

ABNORMAL = frozenset({1005, 1006, 1015})
"""Close codes that stand for a missing one and cannot be sent."""


class Gateway:
    """The bridge on a loopback port of its own, behind an ASGI server's."""

    def __init__(self, definition: EnvironmentDefinition) -> None:
        self._definition = definition
        self._client: aiohttp.ClientSession | None = None
        self._base = URL()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answers one connection, or the server's own beginning and end."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        if self._client is None:
            raise ConfigurationError(
                "the ASGI server did not start this app: turn its lifespan protocol on"
            )
        match scope["type"]:
            case "http":
                await self._pass_request(self._client, scope, receive, send)
            case "websocket":
                await self._pass_socket(self._client, scope, receive, send)
            case kind:
                raise ConfigurationError(f"there is nothing here for {kind!r} connections")

    async def _live(self, receive: Receive, send: Send) -> None:
        """Runs engine and bridge from the server's start to its shutdown."""
        await receive()
        async with AsyncExitStack() as stack:
            try:
                host = await stack.enter_async_context(SessionManager([self._definition]))
                bridge = await stack.enter_async_context(
                    Bridge(host, address="127.0.0.1", access=Access(environment_tokens()))
                )
                self._client = await stack.enter_async_context(
                    aiohttp.ClientSession(
                        auto_decompress=False,
                        connector=aiohttp.TCPConnector(limit=0),
                        cookie_jar=aiohttp.DummyCookieJar(),
                        timeout=aiohttp.ClientTimeout(total=None),
                        skip_auto_headers=("Accept", "Accept-Encoding", "User-Agent"),
                        trust_env=False,
                    )
                )
            except (TypeError, ValueError, OSError) as error:
                await send({"type": "lifespan.startup.failed", "message": str(error)})
                return
            self._base = URL.build(scheme="http", host="127.0.0.1", port=bridge.port)
            await send({"type": "lifespan.startup.complete"})
            await receive()
            self._client = None
        await send({"type": "lifespan.shutdown.complete"})

    def _url(self, scope: Message) -> URL:
        raw_path: bytes = scope.get("raw_path") or URL.build(path=scope["path"]).raw_path.encode()
        path = raw_path.decode("latin-1").removeprefix(scope.get("root_path", ""))
        query: bytes = scope["query_string"]
        return URL.build(
            scheme="http",
            host="127.0.0.1",
            port=self._base.port,
            path=path or "/",
            query_string=query.decode("latin-1"),
            encoded=True,
        )

    async def _pass_request(
        self, client: aiohttp.ClientSession, scope: Message, receive: Receive, send: Send
    ) -> None:
        headers = _headers(scope["headers"], without=NOT_PASSED_ON)
        names = {name.lower() for name, _ in scope["headers"]}
        has_body = not names.isdisjoint({b"content-length", b"transfer-encoding"})
        uploaded = asyncio.Event()  # from then on the server's next word is that the peer has left
        body = _body(receive, uploaded) if has_body else None
        if not has_body:
            uploaded.set()

        async def answer() -> None:
            async with client.request(
                scope["method"],
                self._url(scope),
                headers=headers,
                data=body,
                allow_redirects=False,
            ) as response:
                kept = [
                    (name.lower(), value)
                    for name, value in response.raw_headers
                    if name.lower() not in HOP_BY_HOP
                ]
                await send(
                    {"type": "http.response.start", "status": response.status, "headers": kept}
                )
                async for chunk in response.content.iter_any():
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
                await send({"type": "http.response.body", "body": b"", "more_body": False})

        async def leave() -> None:
            await uploaded.wait()
            while (await receive())["type"] != "http.disconnect":
                pass

        await _first_of(answer(), leave())

    async def _pass_socket(
        self, client: aiohttp.ClientSession, scope: Message, receive: Receive, send: Send
    ) -> None:
        await receive()
        headers = _headers(
            (pair for pair in scope["headers"] if not pair[0].startswith(b"sec-websocket-")),
            without=NOT_PASSED_ON,
        )
        try:
            socket = await client.ws_connect(
                self._url(scope), headers=headers, protocols=scope["subprotocols"], max_msg_size=0
            )
        except aiohttp.WSServerHandshakeError as error:
            await _refuse_socket(scope, send, error.status)
            return
        async with socket:
            await send({"type": "websocket.accept", "subprotocol": socket.protocol})
            await _first_of(_down(socket, send), _up(socket, receive))


def _headers(
    pairs: Iterable[tuple[bytes, bytes]], *, without: frozenset[bytes]
) -> CIMultiDict[str]:
    return CIMultiDict(
        (name.decode("latin-1"), value.decode("latin-1"))
        for name, value in pairs
        if name.lower() not in without
    )


async def _body(receive: Receive, uploaded: asyncio.Event) -> AsyncIterator[bytes]:
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionResetError("the peer left in the middle of its request")
        more = message.get("more_body", False)
        yield message.get("body", b"")
    uploaded.set()


async def _refuse_socket(scope: Message, send: Send, status: int) -> None:
    """Tells why a handshake was refused, if the server can, or else only that it was."""
    if status != 403 and "websocket.http.response" in (scope.get("extensions") or {}):
        await send({"type": "websocket.http.response.start", "status": status, "headers": []})
        await send({"type": "websocket.http.response.body", "body": b""})
    else:
        await send({"type": "websocket.close", "code": 1008})


async def _down(socket: aiohttp.ClientWebSocketResponse, send: Send) -> None:
    """Passes the bridge's frames on until it closes."""
    while True:
        frame = await socket.receive()
        match frame.type:
            case aiohttp.WSMsgType.TEXT:
                await send({"type": "websocket.send", "text": frame.data})
            case aiohttp.WSMsgType.BINARY:
                await send({"type": "websocket.send", "bytes": frame.data})
            case _:
                code = socket.close_code
                code = 1011 if code is None or code == 1006 else code
                reason = frame.extra if frame.type is aiohttp.WSMsgType.CLOSE else ""
                code = 1000 if code in ABNORMAL else code
                await send({"type": "websocket.close", "code": code, "reason": reason or ""})
                return


async def _up(socket: aiohttp.ClientWebSocketResponse, receive: Receive) -> None:
    """Passes the peer's frames on until it leaves."""
    while (message := await receive())["type"] == "websocket.receive":
        text, data = message.get("text"), message.get("bytes")
        if text is not None:
            await socket.send_str(text)
        elif data is not None:
            await socket.send_bytes(data)
    code = message.get("code", 1000)
    reason = message.get("reason") or ""
    await socket.close(code=1001 if code in ABNORMAL else code, message=reason.encode())


async def _first_of(*parts: Awaitable[None]) -> None:
    """Runs parts side by side until one ends, and ends the others."""
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
