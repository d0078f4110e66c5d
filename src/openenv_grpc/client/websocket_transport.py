"""A WebSocket to `/ws`: binary frames with our messages, or the reference's JSON as text."""

from __future__ import annotations

import asyncio
from urllib.parse import unquote

import aiohttp

from openenv_grpc.client.http_sessions import connector
from openenv_grpc.client.transport import ConnectionOptions
from openenv_grpc.client.urls import Target
from openenv_grpc.environment_spec import ENVIRONMENTS_HEADER
from openenv_grpc.errors import (
    Effect,
    EnvironmentNotFoundError,
    InvalidRequestError,
    MessageTooLargeError,
    NotSupportedError,
    OpenEnvError,
    OutcomeTooLargeError,
    PermissionDeniedError,
    ProtocolViolationError,
    UnauthenticatedError,
    UnavailableError,
)
from openenv_grpc.tracing import HEADER, TRACEPARENT

SUBPROTOCOL = "openenv-grpc.v1"
CLOSE_TIMEOUT_S = 2.0
"""How long the other side may take to answer a closing frame."""

_BINARY = aiohttp.WSMsgType.BINARY
_CLEAN_ENDS = (
    aiohttp.WSCloseCode.OK,
    aiohttp.WSCloseCode.GOING_AWAY,
    aiohttp.WSCloseCode.SERVICE_RESTART,
)
_REFUSALS: dict[int, type[OpenEnvError]] = {
    401: UnauthenticatedError,
    403: PermissionDeniedError,
    404: NotSupportedError,
}


def _trace() -> dict[str, str]:
    """Returns the header that names the span in which a socket is opened."""
    traceparent = TRACEPARENT.get()
    return {HEADER: traceparent} if traceparent else {}


class WebSocketTransport:
    """One open socket."""

    def __init__(
        self, session: aiohttp.ClientSession, socket: aiohttp.ClientWebSocketResponse, uri: str
    ) -> None:
        self._session = session
        self._socket = socket
        self._uri = uri
        self.binary = socket.protocol == SUBPROTOCOL
        """Whether the server speaks our protocol; else it speaks the reference's JSON."""

    async def read(self) -> bytes | None:
        """See `Transport`."""
        message = await self._socket.receive()
        if message.type is _BINARY:
            data: bytes = message.data
            return data
        frame = self._frame(message)
        if frame is None and self._socket.close_code == aiohttp.WSCloseCode.SERVICE_RESTART:
            raise UnavailableError(
                f"{self._uri} is shutting down", effect=Effect.UNKNOWN, session_lost=True
            )
        return frame.encode() if isinstance(frame, str) else frame

    async def read_frame(self) -> str | bytes | None:
        """Returns the next frame, or `None` at the end."""
        return self._frame(await self._socket.receive())

    def _frame(self, message: aiohttp.WSMessage) -> str | bytes | None:
        match message.type:
            case aiohttp.WSMsgType.BINARY | aiohttp.WSMsgType.TEXT:
                frame: str | bytes = message.data
                return frame
            case aiohttp.WSMsgType.ERROR:
                raise self._broken()
            case _:
                if self._socket.close_code in _CLEAN_ENDS:
                    return None
                raise self._broken(message.extra or "")

    def _broken(self, reason: str = "") -> OpenEnvError:
        if isinstance(self._socket.exception(), aiohttp.WebSocketError):
            return OutcomeTooLargeError(
                f"{self._uri} sent a frame that is broken, or larger than max_message_size_mb",
                effect=Effect.DONE,
            )
        match self._socket.close_code:
            case aiohttp.WSCloseCode.MESSAGE_TOO_BIG:
                return MessageTooLargeError(f"the message is larger than {self._uri} takes")
            case aiohttp.WSCloseCode.PROTOCOL_ERROR:
                return ProtocolViolationError(
                    f"{self._uri} did not understand: {reason}", effect=Effect.UNKNOWN
                )
            case _:
                why = f": {reason}" if reason else ""
                return UnavailableError(
                    f"the connection to {self._uri} was lost{why}", effect=Effect.UNKNOWN
                )

    async def write(self, data: bytes) -> None:
        """See `Transport`."""
        try:
            await self._socket.send_bytes(data)
        except (OSError, aiohttp.ClientError) as error:
            raise self._broken() from error

    async def write_text(self, text: str) -> None:
        """Sends a text frame."""
        try:
            await self._socket.send_str(text)
        except (OSError, aiohttp.ClientError) as error:
            raise self._broken() from error

    async def close(self) -> None:
        """See `Transport`."""
        try:
            await self._socket.close()
        finally:
            await self._session.close()


async def dial(
    target: Target, options: ConnectionOptions, *, connect_timeout_s: float, offer: bool = True
) -> WebSocketTransport:
    """Opens a socket, offering our subprotocol if `offer` is set.

    Raises:
        UnavailableError: nobody answers there.
        UnauthenticatedError, PermissionDeniedError, NotSupportedError: the server refuses.
        EnvironmentNotFoundError: the path names an environment that the server does not have.
        InvalidRequestError: the URL or a certificate is of no use.
    """
    session = aiohttp.ClientSession(
        connector=connector(options.tls, unix_path=target.web_socket_path),
        trust_env=not target.loopback,  # proxies
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=connect_timeout_s),
    )
    try:
        async with asyncio.timeout(connect_timeout_s):
            socket = await session.ws_connect(
                target.web_url,
                protocols=(SUBPROTOCOL,) if offer else (),
                headers={**dict(options.headers), **_trace()},
                heartbeat=_heartbeat_s(options),
                max_msg_size=options.max_message_bytes,
                timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_TIMEOUT_S),
            )
    except BaseException as error:
        await session.close()
        if isinstance(error, (OSError, aiohttp.ClientError, ValueError)):
            raise _refused(error, target, connect_timeout_s) from error
        raise
    return WebSocketTransport(session, socket, target.uri)


def _heartbeat_s(options: ConnectionOptions) -> float | None:
    """Returns aiohttp's ping interval, which waits for an answer half as long."""
    if options.ping_interval_s is None or options.ping_timeout_s is None:
        return None
    return max(options.ping_interval_s, 2 * options.ping_timeout_s)


def _refused(error: Exception, target: Target, connect_timeout_s: float) -> OpenEnvError:
    match error:
        case aiohttp.WSServerHandshakeError(headers=headers) if (
            headers and ENVIRONMENTS_HEADER in headers
        ):
            return EnvironmentNotFoundError(
                f"{target.uri} names no environment of that server; it has: "
                f"{unquote(headers[ENVIRONMENTS_HEADER])}"
            )
        case aiohttp.WSServerHandshakeError():
            kind = _REFUSALS.get(error.status, UnavailableError)
            return kind(
                f"{target.uri} refused the WebSocket with status {error.status}; the base URL has "
                "to name an OpenEnv server, and token= its token if it wants one",
                metadata={"http_status": str(error.status)},
            )
        case aiohttp.ClientResponseError():
            return UnavailableError(f"{target.uri} is no WebSocket: what answers there is not HTTP")
        case aiohttp.ClientConnectorCertificateError():  # a `ValueError` too
            return UnavailableError(
                f"{target.uri} shows a certificate that is not trusted: "
                f"{error.certificate_error}; tls_ca= names those who vouch for it"
            )
        case aiohttp.InvalidURL() | ValueError():
            return InvalidRequestError(f"{target.uri} is no usable URL: {error}")
        case TimeoutError():
            return UnavailableError(f"{target.uri} did not answer within {connect_timeout_s:g} s")
        case _:
            return UnavailableError(f"failed to connect to {target.uri}: {error}")
