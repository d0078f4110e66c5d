"""Where a server listens, and how it looks after connections."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from openenv_grpc.options import ServerOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class DoorOptions:
    """Addresses, ports and beats."""

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
    http_unix: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", help="Serve HTTP, WebSocket and MCP on a Unix socket of their own too."
        ),
    ] = None

    progress_interval: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            metavar="SECONDS",
            help="How often clients that ask for progress are told of what takes long.  "
            "[default: 5]",
        ),
    ] = None
    ping_interval: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="SECONDS",
            help="How often connections are pinged; 0 for never.  [default: 15 by gRPC, 20 over "
            "a WebSocket]",
        ),
    ] = None
    ping_timeout: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            metavar="SECONDS",
            help="How long the answer to a ping may take before the connection ends.  [default: "
            "10 by gRPC, else as long as the interval]",
        ),
    ] = None

    def server_options(self) -> ServerOptions:
        """Returns what the server takes."""
        return ServerOptions(
            host=self.host,
            grpc_port=None if self.no_grpc else self.grpc_port,
            http_port=None if self.no_http else self.http_port,
            unix=self.unix,
            http_unix=self.http_unix,
            progress_interval_s=self.progress_interval,
            ping_interval_s=self.ping_interval,
            ping_timeout_s=self.ping_timeout,
        )
