"""Which web pages may talk to a server that listens on loopback: those from this machine."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from urllib.parse import urlsplit

from aiohttp import web

from openenv_grpc.errors import PermissionDeniedError


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

    Only where the server listens on loopback: elsewhere its own name is not known. That `Origin`
    and `Host` agree proves nothing there, since any name may be made to resolve to 127.0.0.1.
    """

    def __init__(self, address: str | None, allowed_hosts: Collection[str]) -> None:
        self._active = address is not None and is_loopback(address)
        self._allowed_hosts = frozenset(name.lower() for name in allowed_hosts)

    def check(self, request: web.Request) -> None:
        """Raises `PermissionDeniedError` for a request of a foreign page."""
        origin = request.headers.get("Origin")
        if origin is None or not self._active:
            return
        try:
            name = urlsplit(origin).hostname
        except ValueError:
            name = None
        if name is None or not (is_loopback(name) or name in self._allowed_hosts):
            raise PermissionDeniedError(
                "pages of another origin may not use this server; allow their host if they should"
            )
