"""What every request passes first: is this server meant, may the page ask, is the token good."""

from __future__ import annotations

from aiohttp import hdrs, web
from aiohttp.typedefs import Middleware
from multidict import CIMultiDict

from openenv_bridge.origins import OriginCheck
from openenv_bridge.responses import Handler
from openenv_grpc.access import Access, Area, bearer_token

BEARER_SUBPROTOCOL = "openenv-grpc.bearer."
"""What stands before a token among the subprotocols that a browser offers: it has no headers."""


class Guard:
    """Lets requests pass to those handlers that their principals may reach."""

    def __init__(self, access: Access, origins: OriginCheck) -> None:
        self._access = access
        self._origins = origins

    def over(self, area: Area, handler: Handler) -> Handler:
        """Returns the handler with the guard before it."""

        async def guarded(request: web.Request) -> web.StreamResponse:
            self._origins.check(request)
            self._access.admit(area, token_of(request))
            return await handler(request)

        return guarded

    @property
    def over_nothing(self) -> Middleware:
        """Tells of routes that are not there to trainers alone, as gRPC does of methods."""

        @web.middleware
        async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
            if request.match_info.http_exception is not None:
                self._access.admit(Area.ADMIN, token_of(request))
            return await handler(request)

        return guarded


def token_of(request: web.Request) -> str | None:
    """Returns the token in a header, or among a handshake's subprotocols; `None` without either."""
    header = request.headers.get(hdrs.AUTHORIZATION)
    if header is not None:
        return bearer_token(header)
    for name in offered_subprotocols(request):
        if name.startswith(BEARER_SUBPROTOCOL):
            return name.removeprefix(BEARER_SUBPROTOCOL)
    return None


def offered_subprotocols(request: web.Request) -> list[str]:
    """Returns the subprotocols that a handshake offers."""
    offered = ",".join(request.headers.getall(hdrs.SEC_WEBSOCKET_PROTOCOL, ()))
    return [name.strip() for name in offered.split(",") if name.strip()]


def without_token(request: web.Request) -> web.Request:
    """Returns a handshake without a token among its subprotocols, which aiohttp would log."""
    offered = offered_subprotocols(request)
    kept = [name for name in offered if not name.startswith(BEARER_SUBPROTOCOL)]
    if kept == offered:
        return request
    headers = CIMultiDict(request.headers)
    headers.popall(hdrs.SEC_WEBSOCKET_PROTOCOL)
    if kept:
        headers[hdrs.SEC_WEBSOCKET_PROTOCOL] = ", ".join(kept)
    return request.clone(headers=headers)
