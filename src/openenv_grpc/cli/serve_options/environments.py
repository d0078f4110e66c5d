"""How a server runs environments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from openenv_grpc.cli.serve_options.given import given
from openenv_grpc.cli.sizes import parse_size
from openenv_grpc.options import ServerOptions
from openenv_grpc.types import Isolation, ServerMode


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentOptions:
    """Where their code runs, and what clients may ask and hear of it."""

    mode: Annotated[
        ServerMode | None,
        typer.Option(
            help="In production nobody resets, steps or reads state.  [default: OPENENV_MODE, else "
            "simulation]"
        ),
    ] = None
    isolation: Annotated[
        Isolation | None,
        typer.Option(
            help="Where an environment's code runs; process gives each session a process of its "
            "own, shared and inline are for what never blocks.  [default: what the environment "
            "says, else thread]"
        ),
    ] = None
    worker_memory: Annotated[
        int | None,
        typer.Option(
            parser=parse_size,
            metavar="SIZE",
            help="Limit the address space of each session's process, as 512M or 2G.",
        ),
    ] = None
    max_snapshots: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Snapshots to keep, those that were used last; 0 for none at all.  "
            "[default: 1000]",
        ),
    ] = None
    max_snapshot_bytes: Annotated[
        int | None,
        typer.Option(
            parser=parse_size,
            metavar="SIZE",
            help="What they may take together, as 64M or 2G.  [default: 256M]",
        ),
    ] = None
    redact_errors: Annotated[
        bool,
        typer.Option(
            "--redact-errors", help="Tell clients nothing of an environment's exceptions."
        ),
    ] = False

    def server_options(self) -> ServerOptions:
        """Returns what the server takes."""
        return given(
            ServerOptions(
                mode=self.mode,
                isolation=self.isolation,
                worker_memory_bytes=self.worker_memory,
                redact_errors=self.redact_errors,
            ),
            max_snapshots=self.max_snapshots,
            max_snapshot_bytes=self.max_snapshot_bytes,
        )
