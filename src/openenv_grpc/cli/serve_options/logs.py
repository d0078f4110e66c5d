"""What a server tells of itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from openenv_grpc.cli.logs import LogFormat, LogLevel
from openenv_grpc.options import ServerOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """Logs and traces."""

    log_level: Annotated[LogLevel, typer.Option(help="What to log.")] = LogLevel.INFO
    log_format: Annotated[LogFormat, typer.Option(help="How to log.")] = LogFormat.TEXT
    log_lines_per_minute: Annotated[
        float,
        typer.Option(
            min=0,
            metavar="LINES",
            help="Log lines that each address beyond this machine may cause; 0 for any number.",
        ),
    ] = 600
    otel: Annotated[
        bool,
        typer.Option(
            "--otel",
            envvar="OPENENV_GRPC_OTEL",
            help="Trace operations with OpenTelemetry, as its variables OTEL_... say.",
        ),
    ] = False

    def server_options(self) -> ServerOptions:
        """Returns what the server takes."""
        return ServerOptions(otel=self.otel)
