"""Which host a request has to mean, and which web pages may send one."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from urllib.parse import urlsplit

from aiohttp import web

from openenv_grpc.errors import PermissionDeniedError

ANY = "*"
"""Among the allowed hosts or origins: all of them."""


def is_loopback(name: str) -> bool:
    """Tells whether a host's name or address is this machine's own."""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


class OriginCheck:
    """Refuses what a browser sends on behalf of a foreign page.

    A page that cannot name this server may have a name of its own resolve to it, and then `Origin`
    and `Host` agree; so `Host` has to be one of the server's names: loopback's, the address that
    it listens on, and the allowed ones. Beyond loopback, and without allowed ones, a server does
    not know its names: any will do there, and a page has to come from the host that it asks.
    """

    def __init__(
        self,
        address: str | None,
        allowed_hosts: Collection[str] = (),
        allowed_origins: Collection[str] = (),
    ) -> None:
        names = {_bare(name) for name in allowed_hosts}
        beyond = address is None or not is_loopback(address)
        self._any_host = ANY in names or (beyond and not names)
        self._names = names if address is None else names | {address.lower()}
        self._origins = frozenset(origin.lower().rstrip("/") for origin in allowed_origins)

    def check(self, request: web.Request) -> None:
        """Raises `PermissionDeniedError` if another host is meant, or a foreign page asks."""
        host = _host_name(f"//{request.headers.get('Host', '')}")
        if not self._means_us(host):
            raise PermissionDeniedError(
                "the request means another host; if this server is reached by that name, start it "
                "with --allowed-host NAME"
            )
        origin = request.headers.get("Origin")
        if origin is not None and not self._may_ask(origin.lower(), host):
            raise PermissionDeniedError(
                "pages of another origin may not use this server; if this one should, start it "
                "with --allowed-origin ORIGIN"
            )

    def _means_us(self, host: str | None) -> bool:
        if self._any_host or host == "":
            return True  # browsers always send a host
        return host is not None and (self._is_ours(host) or _is_address(host))

    def _may_ask(self, origin: str, host: str | None) -> bool:
        if ANY in self._origins or origin in self._origins:
            return True
        name = _host_name(origin)
        if not name:
            return False
        return name == host if self._any_host else self._is_ours(name)

    def _is_ours(self, name: str) -> bool:
        return is_loopback(name) or name in self._names


def _bare(name: str) -> str:
    """Returns a host's name without its port, in lower case."""
    return _host_name(f"//{name}") or name.lower()


def _host_name(url: str) -> str | None:
    """Returns the host in a URL, empty if it has none; `None` if that is malformed."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return None


def _is_address(name: str) -> bool:
    """Tells an address from a name: no page can have made another's resolve to this machine."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
