"""HTTP answers and request bodies, as the reference's web framework shapes them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar
from urllib.parse import quote

from aiohttp import web
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from openenv_bridge import errors
from openenv_grpc.environment_spec import ENVIRONMENTS_HEADER
from openenv_grpc.errors import OpenEnvError
from openenv_grpc.events import log_event
from openenv_grpc.serialization import dump_json, error_details
from openenv_grpc.types import JsonValue

logger = logging.getLogger(__name__)

BodyT = TypeVar("BodyT", bound=BaseModel)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

MISSING = {"type": "missing", "loc": ["body"], "msg": "Field required", "input": None}


class BodyRefusedError(Exception):
    """A request's body is not what its route takes."""

    def __init__(self, details: Sequence[JsonValue]) -> None:
        super().__init__("the body was refused")
        self.details = list(details)


def json_response(content: bytes, *, status: int = 200) -> web.Response:
    """Answers with JSON text."""
    return web.Response(body=content, status=status, content_type="application/json")


def detail(text: JsonValue, status: int, **headers: str) -> web.Response:
    """Answers with what went wrong."""
    response = json_response(dump_json({"detail": text}), status=status)
    response.headers.update(headers)
    return response


def server_error() -> web.Response:
    """Answers that something broke, without telling what, and drops the connection."""
    response = web.Response(text="Internal Server Error", status=500)
    response.force_close()
    return response


def error_response(error: OpenEnvError) -> web.Response:
    """Answers with one of our errors."""
    status = errors.PROJECTIONS[error.reason].http_status
    if status == 500:
        return server_error()
    if status == 422:
        return detail(errors.details(error), status)
    if status == 401:
        return detail(error.message, status, **{"WWW-Authenticate": 'Bearer realm="openenv-grpc"'})
    return detail(error.message, status)


async def read_body(request: web.Request, model: type[BodyT], *, optional: bool = False) -> BodyT:
    """Reads a JSON body. Raises `BodyRefusedError`."""
    body = await request.read()
    if not body:
        if optional:
            return model()
        raise BodyRefusedError([MISSING])
    value = _parse(body) if _says_json(request) else body.decode(errors="replace")
    if value is None and not optional:
        raise BodyRefusedError([MISSING])
    try:
        return model.model_validate(value, from_attributes=True)
    except ValidationError as error:
        found = error_details(error, url=False)
        raise BodyRefusedError(
            [{**entry, "loc": ["body", *entry["loc"]]} for entry in found]
        ) from error


def _says_json(request: web.Request) -> bool:
    main, _, kind = request.content_type.partition("/")
    return main == "application" and (kind == "json" or kind.endswith("+json"))


def _parse(body: bytes) -> JsonValue:
    try:
        return from_json(body)
    except ValueError as error:
        raise BodyRefusedError(
            [
                {
                    "type": "json_invalid",
                    "loc": ["body", 0],
                    "msg": "JSON decode error",
                    "input": {},
                    "ctx": {"error": str(error)},
                }
            ]
        ) from error


@web.middleware
async def plain_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turns whatever a handler raises into an answer."""
    try:
        return await handler(request)
    except BodyRefusedError as refused:
        return detail(refused.details, 422)
    except web.HTTPException as error:
        return _http_error(request, error)
    except OpenEnvError as error:
        refusal = _refuse_socket(request, error_response(error))
        if "environments" in error.metadata:
            refusal.headers[ENVIRONMENTS_HEADER] = quote(error.metadata["environments"], safe=", ")
        return refusal
    except web.RequestPayloadError:
        return detail("Bad Request", 400)  # a body that is not encoded as its headers say
    except ConnectionError:
        return server_error()  # nobody is there any more to read it
    except Exception as error:  # the last border: nothing of a defect may reach the client
        log_event(
            logger,
            logging.ERROR,
            "request failed",
            error=error,
            method=request.method,
            path=request.path,
            peer=request.remote,
        )
        return server_error()


def _http_error(request: web.Request, error: web.HTTPException) -> web.StreamResponse:
    if error.status == 405:
        return detail(error.reason, 405, Allow=error.headers.get("Allow", ""))
    return _refuse_socket(request, detail(error.reason, error.status))


def _refuse_socket(request: web.Request, response: web.Response) -> web.Response:
    """Makes "not found" a refusal where the request is a handshake, as in the reference."""
    if response.status == 404 and wants_websocket(request):
        return detail("Forbidden", 403)
    return response


def peer_of(request: web.Request) -> str:
    """Names who asks: an address, if it comes by the network."""
    return request.remote or "unix"


def wants_websocket(request: web.Request) -> bool:
    """Tells whether a request is a WebSocket's handshake."""
    return request.headers.get("Upgrade", "").lower() == "websocket"
