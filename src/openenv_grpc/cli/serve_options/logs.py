"""What a server tells of itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from openenv_grpc.cli.logs import LogFormat, LogLevel


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """Logs."""

    log_level: Annotated[LogLevel, typer.Option(help="What to log.")] = LogLevel.INFO
    log_format: Annotated[LogFormat, typer.Option(help="How to log.")] = LogFormat.TEXT
