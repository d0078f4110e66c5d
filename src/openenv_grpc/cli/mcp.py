"""`mcp`: an environment as an MCP server on standard input and output."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Annotated, BinaryIO
from urllib.parse import urlsplit

import typer

from openenv_grpc.cli.credentials import CredentialOptions
from openenv_grpc.cli.grouping import with_groups
from openenv_grpc.cli.logs import LogFormat, LogLevel, configure_logs
from openenv_grpc.client import GenericEnvClient
from openenv_grpc.client.credentials import TlsFiles, request_headers, tls_files
from openenv_grpc.client.urls import is_url, parse_url
from openenv_grpc.errors import ConfigurationError
from openenv_grpc.serving import Server
from openenv_grpc.targets import load

# What follows `\b` is shown as it stands.
EXAMPLES = """\b
Examples:
  openenv-grpc mcp echo_env
  openenv-grpc mcp http://127.0.0.1:8000
  openenv-grpc mcp grpcs://envs.example:443 --env chess_env --token-file token
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Door:
    """Where MCP is spoken over HTTP, and by what right."""

    url: str
    token: str | None
    tls: TlsFiles
    unix_path: str = ""
    """Of the socket where it is spoken, if it is a Unix socket."""


@with_groups
def mcp(
    *,
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET|URL",
            help="An environment as `serve` takes it, or a server that has one: "
            "http(s)://HOST:PORT, grpc(s)://HOST:PORT, unix:PATH, http+unix:PATH.",
        ),
    ],
    env: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Environment of a server that has several.", show_default=False
        ),
    ] = "",
    by: CredentialOptions,
    log_level: Annotated[LogLevel, typer.Option(help="What to log.")] = LogLevel.WARNING,
) -> None:
    """Speak MCP on standard input and output, for agents that start their servers themselves.

    Each client has a session of its own, which begins with it and ends with it. Logs, and what an
    environment prints, go to standard error.
    """
    configure_logs(log_level, LogFormat.TEXT)
    given = by.credentials()
    tls = tls_files(None, given["tls_ca"], given["tls_cert"], given["tls_key"])
    with _own_output() as output:
        if is_url(target):
            asyncio.run(_relay_remote(target, env, given["token"], tls, output))
        elif env:
            raise ConfigurationError("--env is for a server's URL")
        else:
            asyncio.run(_relay_local(target, output))


@contextmanager
def _own_output() -> Iterator[BinaryIO]:
    """Keeps standard output for messages: what an environment prints goes to standard error."""
    sys.stdout.flush()
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as output:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        try:
            yield output
        finally:
            sys.stdout.flush()
            os.dup2(output.fileno(), sys.stdout.fileno())


async def _relay_local(target: str, output: BinaryIO) -> None:
    """Serves an environment to nobody but the client of this process."""
    token = secrets.token_urlsafe(32)
    async with Server(load(target), grpc_port=None, http_port=0, tokens=token) as server:
        door = _Door(url=f"http://{server.http_address}/mcp", token=token, tls=TlsFiles())
        await _relay(door, output)


async def _relay_remote(
    url: str, environment: str, token: str | None, tls: TlsFiles, output: BinaryIO
) -> None:
    parts, unix_path = urlsplit(url), ""
    if parts.scheme in ("http+unix", "ws+unix"):
        server = parse_url(url)
        unix_path = server.web_socket_path
        base = server.http_url + (f"/{environment}/mcp" if environment else "/mcp")
    elif parts.scheme in ("http", "https"):
        base = url.rstrip("/")
        if not parts.path.rstrip("/").endswith("/mcp"):
            base += f"/{environment}/mcp" if environment else "/mcp"
        elif environment:
            raise ConfigurationError("give --env, or a URL that ends in /mcp, not both")
    else:
        base = await _asked(url, environment, token, tls)
    await _relay(_Door(url=base, token=token, tls=tls, unix_path=unix_path), output)


async def _asked(url: str, environment: str, token: str | None, tls: TlsFiles) -> str:
    """Asks a gRPC server where it speaks MCP."""
    client = GenericEnvClient(
        url, environment=environment, token=token, tls_ca=tls.ca, tls_cert=tls.cert, tls_key=tls.key
    )
    async with client:
        access = await client.agent_access()
    if not access.url:
        raise ConfigurationError(f"{url} has no HTTP door, which MCP needs")
    if access.token and token is None:
        raise ConfigurationError(
            f"{url} was served with --agent-tokens, and has MCP for those alone whom a trainer "
            f"gave a token: name {access.url} and that token (--token-file)"
        )
    return access.url


async def _relay(door: _Door, output: BinaryIO) -> None:
    # Here, so that the other commands start without them.
    import aiohttp

    from openenv_bridge.mcp.stdio import Relay
    from openenv_grpc.client.http_sessions import connector

    def write(content: bytes) -> None:
        output.write(content + b"\n")
        output.flush()

    async with aiohttp.ClientSession(
        connector=connector(door.tls, unix_path=door.unix_path),
        headers=dict(request_headers(None, door.token)),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=30),
    ) as http:
        await Relay(http, door.url, write).run(_lines(sys.stdin.buffer))


async def _lines(source: BinaryIO) -> AsyncIterator[bytes]:
    """Yields lines as they come. A daemon reads them, since nothing else ends a blocked read."""
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[bytes] = asyncio.Queue()
    number = source.fileno()  # a daemon that reads `source` itself would hold its lock at exit

    def read() -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            while chunk := os.read(number, 65_536):
                loop.call_soon_threadsafe(chunks.put_nowait, chunk)
            loop.call_soon_threadsafe(chunks.put_nowait, b"")

    threading.Thread(target=read, name="openenv stdin", daemon=True).start()
    rest = b""
    while chunk := await chunks.get():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line
    if rest:
        yield rest
