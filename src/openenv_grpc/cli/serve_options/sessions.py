"""How many sessions a server has, and how long they live."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from openenv_grpc.cli.serve_options.given import given
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
    max_queued: Annotated[
        int | None,
        typer.Option(
            min=1, help="Openings that may wait at once for a slot to come free.  [default: 1024]"
        ),
    ] = None
    queue_timeout: Annotated[
        float | None,
        typer.Option(min=0, metavar="SECONDS", help="How long each may wait.  [default: 300]"),
    ] = None
    refuse_when_full: Annotated[
        bool,
        typer.Option("--refuse-when-full", help="Have nobody wait: refuse where no slot is free."),
    ] = False
    detached_grace: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="SECONDS",
            help="How long a session whose connection was lost keeps its slot although others "
            "wait.  [default: 10]",
        ),
    ] = None
    hold_and_wait_grace: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="SECONDS",
            help="How long a client that holds all slots may leave them idle and wait for more.  "
            "[default: 10]",
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
        return given(
            ServerOptions(
                max_sessions=self.max_sessions,
                session_timeout_s=self.session_timeout,
                drain_timeout_s=self.drain_timeout,
                refuse_when_full=self.refuse_when_full,
            ),
            max_queued=self.max_queued,
            queue_timeout_s=self.queue_timeout,
            detached_grace_s=self.detached_grace,
            hold_and_wait_grace_s=self.hold_and_wait_grace,
        )
