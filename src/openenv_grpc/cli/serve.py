"""`serve`: environments on all doors, until it is stopped."""

from __future__ import annotations

from typing import Annotated

import typer

from openenv_grpc import serving
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
)
from openenv_grpc.options import ServerOptions
from openenv_grpc.targets import load


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
    logs: LogOptions,
) -> None:
    """Serve environments until Ctrl-C or SIGTERM.

    SIGTERM drains: new sessions and episodes are refused, and those under way go on until they end
    or the time is up. Ctrl-C, or a second signal, does not wait for them.

    Once every door listens, prints one line to standard output: READY grpc=HOST:PORT
    http=HOST:PORT. Logs go to standard error.
    """
    configure_logs(
        logs.log_level, logs.log_format, lines_per_minute=logs.log_lines_per_minute or None
    )
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
    serving.serve(
        *(load(name, overrides) for name in targets),
        on_ready=_announce,
        **options,
    )


def _announce(server: serving.Server) -> None:
    doors = {
        "grpc": server.grpc_address,
        "http": server.http_address,
        "unix": server.unix_path,
        "http_unix": server.http_unix_path,
    }
    listed = (f"{door}={address}" for door, address in doors.items() if address is not None)
    print("READY", *listed, flush=True)
