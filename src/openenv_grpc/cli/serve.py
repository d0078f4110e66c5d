"""`serve`: environments on all doors, until it is stopped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from openenv_grpc import serving
from openenv_grpc.cli import pinning
from openenv_grpc.cli.grouping import with_groups
from openenv_grpc.cli.logs import configure_logs
from openenv_grpc.cli.serve_options import (
    DoorOptions,
    EnvironmentOptions,
    LimitOptions,
    LogOptions,
    ProtectionOptions,
    SessionOptions,
    TargetOptions,
    WorkerOptions,
)
from openenv_grpc.collecting import collection_put_off
from openenv_grpc.options import ServerOptions
from openenv_grpc.targets import load

if TYPE_CHECKING:
    from openenv_grpc.workers import WorkerDoors


@with_groups
def serve(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="TARGET",
            help="An installed environment's name, a folder with openenv.yaml, module:Class, or "
            "gym:ID of Gymnasium. With several, the first is the default.",
            show_default=False,
        ),
    ],
    doors: DoorOptions,
    protection: ProtectionOptions,
    sessions: SessionOptions,
    environments: EnvironmentOptions,
    target: TargetOptions,
    limits: LimitOptions,
    workers: WorkerOptions,
    logs: LogOptions,
) -> None:
    """Serve environments until Ctrl-C or SIGTERM.

    SIGTERM drains: new sessions and episodes are refused, and those under way go on until they end
    or the time is up. Ctrl-C, or a second signal, does not wait for them.

    Once every door listens, prints one line to standard output: READY grpc=HOST:PORT
    http=HOST:PORT. Logs go to standard error. With --workers it goes on with grpc.1=HOST:PORT,
    http.1=HOST:PORT and so on for each further worker.
    """
    log = partial(
        configure_logs,
        logs.log_level,
        logs.log_format,
        lines_per_minute=logs.log_lines_per_minute or None,
    )
    log()
    overrides = target.overrides(len(targets))
    # Before environments are imported, which must not see the token of this process.
    options: ServerOptions = {
        **doors.server_options(),
        **protection.server_options(),
        **sessions.server_options(),
        **environments.server_options(),
        **limits.server_options(),
        **logs.server_options(),
    }
    if workers.pin:
        pinning.check_pin(environments.isolation)
    if workers.workers > 1:
        # Here, so that a server in one process starts without what starts others.
        from openenv_grpc.workers import Served, serve_workers

        prepare = partial(pinning.prepare_pinned, log) if workers.pin else log
        serve_workers(
            Served(targets=targets, overrides=overrides, options=options, prepare=prepare),
            size=workers.workers,
            on_ready=_announce_workers,
        )
        return
    if workers.pin:
        pinning.pin(0)
    with collection_put_off():
        definitions = [load(name, overrides) for name in targets]
    serving.serve(*definitions, on_ready=_announce, **options)


def _announce(server: serving.Server) -> None:
    doors = {
        "grpc": server.grpc_address,
        "http": server.http_address,
        "unix": server.unix_path,
        "http_unix": server.http_unix_path,
    }
    _say_ready([doors])


def _announce_workers(workers: Sequence[WorkerDoors]) -> None:
    _say_ready([asdict(doors) for doors in workers])


def _say_ready(workers: Sequence[Mapping[str, str | None]]) -> None:
    listed = [
        f"{door}{f'.{number}' if number else ''}={address}"
        for number, doors in enumerate(workers)
        for door, address in doors.items()
        if address is not None
    ]
    print("READY", *listed, flush=True)
