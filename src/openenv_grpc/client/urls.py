"""Base URLs: what a client is told, and what it dials."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import SplitResult, urlsplit

from openenv_grpc.errors import InvalidRequestError

FORMS = (
    "grpc://HOST:PORT, grpcs://HOST:PORT, unix:PATH, http(s)://HOST[:PORT][/PATH], "
    "ws(s)://HOST[:PORT][/PATH], http+unix:PATH or HOST:PORT"
)
"""The forms that a base URL may have, for messages."""

_DEFAULT_PORTS = {"grpc": 50051, "grpcs": 443}
_UNIX = "unix:"
_WEB_UNIX = ("http+unix:", "ws+unix:")
_WEB_SOCKETS = {"http": "ws", "ws": "ws", "https": "wss", "wss": "wss"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a server is and what is spoken there."""

    uri: str
    """For gRPC its target, `HOST:PORT` or `unix:PATH`; else the WebSocket's URL, or
    `http+unix:PATH`."""
    grpc: bool
    """Whether it is reached by gRPC; else by WebSocket."""
    secure: bool = False
    """Whether TLS is used."""
    loopback: bool = False
    """Whether it is this machine, which no proxy stands before."""
    web_socket_path: str = ""
    """Path of the Unix socket on which HTTP and WebSockets are spoken, if it is one."""

    @property
    def web_url(self) -> str:
        """The WebSocket's URL; on a Unix socket that tells no more than what is asked for there."""
        return "ws://localhost/ws" if self.web_socket_path else self.uri

    @property
    def http_url(self) -> str:
        """The same server's base URL for HTTP."""
        return "http" + self.web_url.removeprefix("ws").removesuffix("/ws")


def is_url(text: str) -> bool:
    """Tells whether a text is a server's URL, and nothing that `serve` takes."""
    return "://" in text or text.lower().startswith((_UNIX, *_WEB_UNIX))


@lru_cache(maxsize=256)
def parse_url(base_url: str) -> Target:
    """Reads a base URL. One without a scheme is a WebSocket's, as in the reference.

    Raises:
        InvalidRequestError: it has none of the known forms.
    """
    text = base_url.strip()
    if text.lower().startswith(_UNIX):
        path = _unix_path(text, base_url)
        return Target(uri=f"unix:{path}", grpc=True, loopback=True)
    if text.lower().startswith(_WEB_UNIX):
        path = _unix_path(text, base_url)
        return Target(uri=f"http+unix:{path}", grpc=False, loopback=True, web_socket_path=path)
    if "://" not in text:
        text = f"ws://{text}"
    parts = _split(text, base_url)
    if parts.scheme in _DEFAULT_PORTS:
        return _grpc_target(parts, base_url)
    if parts.scheme in _WEB_SOCKETS:
        return Target(
            uri=f"{_WEB_SOCKETS[parts.scheme]}://{parts.netloc}{parts.path.rstrip('/')}/ws",
            grpc=False,
            secure=parts.scheme in ("https", "wss"),
            loopback=_is_loopback(parts.hostname or ""),
        )
    raise _refused(base_url, f"its scheme {parts.scheme!r} is not known")


def write_url(target: Target) -> str:
    """Returns the URL that `parse_url` reads a target of gRPC from."""
    if target.uri.startswith("unix:"):
        return target.uri
    return f"grpc{'s' if target.secure else ''}://{target.uri}"


def _unix_path(text: str, base_url: str) -> str:
    path = text.partition(":")[2]
    if path.startswith("//"):
        path = path[2:]
        if not path.startswith("/"):
            raise _refused(base_url, "a path after // is absolute, as in unix:///run/server.sock")
    if not path:
        raise _refused(base_url, "it names no path")
    return path


def _split(text: str, base_url: str) -> SplitResult:
    try:
        parts = urlsplit(text)
        _ = parts.port  # is read, and refused, only when asked for
    except ValueError as error:
        raise _refused(base_url, str(error)) from error
    if not parts.hostname:
        raise _refused(base_url, "it names no host")
    if any(character.isspace() for character in text):
        raise _refused(base_url, "it has white space in it")
    if parts.query or parts.fragment:
        raise _refused(base_url, "queries and fragments have no meaning here")
    return parts


def _grpc_target(parts: SplitResult, base_url: str) -> Target:
    if parts.path.strip("/"):
        raise _refused(base_url, "a gRPC server has no path")
    if parts.username is not None:
        raise _refused(base_url, "names and passwords go into headers=")
    host = parts.hostname or ""
    address = f"[{host}]" if ":" in host else host
    return Target(
        uri=f"{address}:{parts.port or _DEFAULT_PORTS[parts.scheme]}",
        grpc=True,
        secure=parts.scheme == "grpcs",
        loopback=_is_loopback(host),
    )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _refused(base_url: str, why: str) -> InvalidRequestError:
    return InvalidRequestError(f"{base_url!r} is no usable base URL: {why}. Use {FORMS}.")
