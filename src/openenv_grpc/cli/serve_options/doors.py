"""Where a server listens."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from openenv_grpc.options import ServerOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorOptions:
    """Addresses and ports."""

    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1"
    grpc_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of gRPC; 0 for a free one.")
    ] = 50051
    http_port: Annotated[
        int,
        typer.Option(min=0, max=65535, help="Port of HTTP, WebSocket and MCP; 0 for a free one."),
    ] = 8000
    no_grpc: Annotated[bool, typer.Option("--no-grpc", help="Open no gRPC port.")] = False
    no_http: Annotated[bool, typer.Option("--no-http", help="Open no HTTP port.")] = False
    unix: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Serve gRPC on a Unix socket too.")
    ] = None

    def server_options(self) -> ServerOptions:
        """Returns what the server takes."""
        return ServerOptions(
            host=self.host,
            grpc_port=None if self.no_grpc else self.grpc_port,
            http_port=None if self.no_http else self.http_port,
            unix=self.unix,
        )
