"""How many processes serve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from openenv_grpc.crew import MAX_WORKERS


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """Several processes that are one server."""

    workers: Annotated[
        int,
        typer.Option(
            min=1,
            max=MAX_WORKERS,
            help="Processes that serve, each on ports of its own, counted on from --grpc-port and "
            "--http-port; the paths of --unix and --http-unix get the suffix .1, .2 and so on. "
            "They share --max-sessions evenly, and each has a queue of its own. Clients in Python "
            "spread their sessions over them. --public-url has {worker} where a worker's number "
            "stands.",
        ),
    ] = 1
    pin: Annotated[
        bool,
        typer.Option(
            "--pin",
            help="Keep each process that serves on one processor, with all that its environments "
            "start: the first worker on the first one, and so on. Many light environments in "
            "Python, on threads, make up to twice as many steps.",
        ),
    ] = False
