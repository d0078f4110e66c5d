"""What a server offers, asked of its catalogue by gRPC or of its routes by HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import aiohttp
import grpc.aio
from google.protobuf.json_format import MessageToDict

from openenv_grpc.client.credentials import FilePath, request_headers, tls_files
from openenv_grpc.client.grpc_transport import open_channel
from openenv_grpc.client.http_sessions import connector
from openenv_grpc.client.rpc_errors import error_of
from openenv_grpc.client.transport import ConnectionOptions
from openenv_grpc.client.urls import Target, parse_url, write_url
from openenv_grpc.client.worker_targets import worker_targets
from openenv_grpc.errors import (
    DeadlineExceededError,
    EnvironmentNotFoundError,
    OpenEnvError,
    PermissionDeniedError,
    ProtocolViolationError,
    UnauthenticatedError,
    UnavailableError,
)
from openenv_grpc.serialization import parse_json, parse_json_object
from openenv_grpc.types import Budgets, JsonValue
from openenv_grpc.v1 import catalog_pb2, catalog_pb2_grpc
from openenv_grpc.wire.budgets import read_budgets
from openenv_grpc.wire.crew import read_workers

MAX_MESSAGE_BYTES = 100 * 2**20

_REFUSALS: dict[int, type[OpenEnvError]] = {401: UnauthenticatedError, 403: PermissionDeniedError}


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentDescription:
    """One environment of a server. What the server does not tell is empty or `None`."""

    name: str
    description: str = ""
    version: str = ""
    author: str = ""
    documentation_url: str = ""
    mode: str = ""
    schemas: dict[str, JsonValue] = field(default_factory=dict)
    """JSON Schemas by `action`, `observation`, `state`."""
    capabilities: dict[str, JsonValue] = field(default_factory=dict)
    budgets: dict[str, float] = field(default_factory=dict)
    """Longest times in seconds by `reset`, `step`, `close`, usual ones by `expected_reset` and so
    on; those that the environment tells."""
    session_limit: int | None = None
    session_count: int | None = None
    doors: dict[str, str] = field(default_factory=dict)
    """Where it is reached, by protocol; Unix sockets are `unix` for gRPC and `http+unix`."""
    workers: list[str] = field(default_factory=list)
    """URLs for gRPC of the server's worker processes, by their numbers, if it has several."""


async def describe(
    base_url: str,
    environment: str = "",
    *,
    timeout_s: float = 10.0,
    token: str | None = None,
    tls_ca: FilePath | None = None,
    tls_cert: FilePath | None = None,
    tls_key: FilePath | None = None,
) -> list[EnvironmentDescription]:
    """Describes the environments of a server, the default one first, or only the one named.

    Token and certificates are those of an `EnvClient`.

    Raises:
        EnvironmentNotFoundError, UnavailableError, DeadlineExceededError, InvalidRequestError.
        UnauthenticatedError, PermissionDeniedError: the token is missing, or not good.
    """
    target = parse_url(base_url)
    options = ConnectionOptions(
        max_message_bytes=MAX_MESSAGE_BYTES,
        headers=request_headers(None, token),
        tls=tls_files(target, tls_ca, tls_cert, tls_key),
    )
    try:
        async with asyncio.timeout(timeout_s):
            if target.grpc:
                return await _by_grpc(target, environment, options)
            return await _by_http(target, environment, options)
    except TimeoutError as error:
        raise DeadlineExceededError(
            f"{target.uri} did not answer within {timeout_s:g} s; see that a server runs there"
        ) from error


async def _by_grpc(
    target: Target, environment: str, options: ConnectionOptions
) -> list[EnvironmentDescription]:
    metadata = tuple((name.lower(), value) for name, value in options.headers)
    async with open_channel(target, options) as channel:
        catalog = catalog_pb2_grpc.CatalogServiceStub(channel)
        try:
            listed = await catalog.ListEnvironments(
                catalog_pb2.ListEnvironmentsRequest(), metadata=metadata
            )
            crew = read_workers(listed.workers)
            workers = () if crew is None else worker_targets(target, crew)
            return [
                _described(
                    await catalog.GetEnvironment(
                        catalog_pb2.GetEnvironmentRequest(environment=name), metadata=metadata
                    ),
                    workers,
                )
                for name in ([environment] if environment else listed.environments)
            ]
        except grpc.aio.AioRpcError as error:
            raise error_of(error, target=target.uri) from error


def _described(
    response: catalog_pb2.GetEnvironmentResponse, workers: Sequence[Target]
) -> EnvironmentDescription:
    found = response.environment
    schemas = {
        "action": found.action_schema_json,
        "observation": found.observation_schema_json,
        "state": found.state_schema_json,
    }
    return EnvironmentDescription(
        name=found.name,
        description=found.description,
        version=found.version,
        author=found.author,
        documentation_url=found.documentation_uri,
        mode=found.mode,
        schemas={part: parse_json(text, what="schema") for part, text in schemas.items() if text},
        capabilities=MessageToDict(
            found.capabilities,
            preserving_proto_field_name=True,
            always_print_fields_with_no_presence=True,
        ),
        budgets=_times(read_budgets(found.budgets)),
        session_limit=found.session_limit,
        session_count=found.session_count,
        doors={_door_name(door): door.uri for door in found.doors},
        workers=[write_url(worker) for worker in workers],
    )


def _door_name(door: catalog_pb2.Door) -> str:
    """Names a door; a server may have two for gRPC."""
    scheme = door.uri.partition(":")[0]
    return scheme if scheme.endswith("unix") else door.protocol


def _times(budgets: Budgets) -> dict[str, float]:
    times = {name.removesuffix("_s"): seconds for name, seconds in asdict(budgets).items()}
    return {name: seconds for name, seconds in times.items() if seconds is not None}


async def _by_http(
    target: Target, environment: str, options: ConnectionOptions
) -> list[EnvironmentDescription]:
    base = target.http_url
    async with aiohttp.ClientSession(
        trust_env=not target.loopback,
        headers=dict(options.headers),
        connector=connector(options.tls, unix_path=target.web_socket_path),
    ) as http:
        try:
            if environment:
                return [await _ask_routes(http, target, f"/{environment}", environment)]
            names = await _names(http, base)
            return [
                await _ask_routes(http, target, "" if number == 0 else f"/{name}", name)
                for number, name in enumerate(names)
            ]
        except aiohttp.ClientConnectionError as error:
            raise UnavailableError(
                f"{target.uri} cannot be reached: {error}; see that a server runs there"
            ) from error
        except aiohttp.ClientError as error:
            raise UnavailableError(
                f"{base} does not answer in HTTP; if that is its gRPC port, say grpc://HOST:PORT"
            ) from error


async def _names(http: aiohttp.ClientSession, base: str) -> list[str]:
    """Lists the environments; a server that has no such route has one, of no name."""
    async with http.get(f"{base}/list_environments") as response:
        _check_admitted(response)
        if response.status != 200:
            return [""]
        names = parse_json(await response.read(), what="list of environments")
    return [str(name) for name in names] or [""]


async def _ask_routes(
    http: aiohttp.ClientSession, target: Target, prefix: str, name: str
) -> EnvironmentDescription:
    base = target.http_url
    metadata = await _get(http, f"{base}{prefix}/metadata", name)
    schemas = await _get(http, f"{base}{prefix}/schema", name)
    openapi = await _get(http, f"{base}/openapi.json", name)
    return EnvironmentDescription(
        name=name or str(metadata.get("name", "")),
        description=str(metadata.get("description") or ""),
        version=str(metadata.get("version") or ""),
        author=str(metadata.get("author") or ""),
        documentation_url=str(metadata.get("documentation_url") or ""),
        # Only a server in simulation mode has the route.
        mode="simulation" if "/reset" in openapi.get("paths", {}) else "production",
        schemas={part: schema for part, schema in schemas.items() if schema},
        doors=_web_doors(target, prefix),
    )


def _web_doors(target: Target, prefix: str) -> dict[str, str]:
    if target.web_socket_path:
        return {"http+unix": target.uri}
    base = target.http_url
    return {
        "http": f"{base}{prefix}",
        "ws": f"ws{base.removeprefix('http')}{prefix}/ws",
        "mcp": f"{base}{prefix}/mcp",
    }


async def _get(http: aiohttp.ClientSession, url: str, name: str) -> dict[str, Any]:
    async with http.get(url) as response:
        content = await response.read()
        _check_admitted(response)
        if response.status == 404 and name:
            raise EnvironmentNotFoundError(f"there is no environment {name!r} at {url}")
        if response.status != 200:
            raise ProtocolViolationError(
                f"{url} answered {response.status}: this is no environment's server"
            )
    return parse_json_object(content, what="answer")


def _check_admitted(response: aiohttp.ClientResponse) -> None:
    refusal = _REFUSALS.get(response.status)
    if refusal is not None:
        raise refusal(
            f"{response.url} answered {response.status}: the server asks for a token, or another"
        )
