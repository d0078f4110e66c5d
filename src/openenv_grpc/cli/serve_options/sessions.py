"""How many sessions a server has, and how long they live."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from openenv_grpc.options import ServerOptions
from openenv_grpc.serving import DRAIN_TIMEOUT_S


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """Capacity, and the ends of sessions."""

    max_sessions: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Sessions open at once.  [default: MAX_CONCURRENT_ENVS; else 256, or 1 for "
            "environments that do not support concurrent sessions]",
        ),
    ] = None
    session_timeout: Annotated[
        float | None,
        typer.Option(
            min=0.001, metavar="SECONDS", help="End sessions that idle as long.  [default: never]"
        ),
    ] = None
    drain_timeout: Annotated[
        float,
        typer.Option(
            min=0, metavar="SECONDS", help="How long episodes may go on after SIGTERM or a drain."
        ),
    ] = DRAIN_TIMEOUT_S

    def server_options(self) -> ServerOptions:
        """Returns what the server takes."""
        return ServerOptions(
            max_sessions=self.max_sessions,
            session_timeout_s=self.session_timeout,
            drain_timeout_s=self.drain_timeout,
        )
