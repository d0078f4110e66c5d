"""`serve`: environments on all doors, until it is stopped."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from openenv_grpc import serving
from openenv_grpc.access import TOKEN_VARIABLE
from openenv_grpc.cli.logs import LogFormat, LogLevel, configure_logs
from openenv_grpc.cli.sizes import parse_size
from openenv_grpc.errors import ConfigurationError
from openenv_grpc.targets import Overrides, load
from openenv_grpc.types import Isolation, ServerMode


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
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    grpc_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of gRPC; 0 for a free one.")
    ] = 50051,
    http_port: Annotated[
        int,
        typer.Option(min=0, max=65535, help="Port of HTTP, WebSocket and MCP; 0 for a free one."),
    ] = 8000,
    no_grpc: Annotated[bool, typer.Option("--no-grpc", help="Open no gRPC port.")] = False,
    no_http: Annotated[bool, typer.Option("--no-http", help="Open no HTTP port.")] = False,
    unix: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Serve gRPC on a Unix socket too.")
    ] = None,
    insecure: Annotated[
        bool,
        typer.Option(
            "--insecure",
            envvar="OPENENV_GRPC_INSECURE",
            help="Listen on a --host beyond this machine without a token, where whoever reaches it "
            "drives the environments.",
        ),
    ] = False,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Ask for one of these tokens, one a line.  [default: that of OPENENV_GRPC_TOKEN, "
            "if it is set]",
        ),
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Speak TLS, with this certificate (PEM).")
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The certificate's key (PEM).")
    ] = None,
    tls_client_ca: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Ask clients for a certificate that these vouch for."),
    ] = None,
    public_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Where HTTP is reached from elsewhere, for agents to be told."
        ),
    ] = None,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A name by which HTTP requests may ask for this server, or '*'; may be repeated.  "
            "[default: those of loopback and --host; beyond loopback any]",
        ),
    ] = None,
    allowed_origin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN",
            help="Web pages that may use this server, https://HOST[:PORT] or '*'; may be "
            "repeated.  [default: its own]",
        ),
    ] = None,
    max_sessions: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Sessions open at once.  [default: MAX_CONCURRENT_ENVS; else 256, or 1 for "
            "environments that do not support concurrent sessions]",
        ),
    ] = None,
    max_queued: Annotated[
        int | None,
        typer.Option(
            min=1, help="Openings that may wait at once for a slot to come free.  [default: 1024]"
        ),
    ] = None,
    queue_timeout: Annotated[
        float | None,
        typer.Option(min=0, metavar="SECONDS", help="How long each may wait.  [default: 300]"),
    ] = None,
    refuse_when_full: Annotated[
        bool,
        typer.Option("--refuse-when-full", help="Have nobody wait: refuse where no slot is free."),
    ] = False,
    detached_grace: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="SECONDS",
            help="How long a session whose connection was lost keeps its slot although others "
            "wait.  [default: 10]",
        ),
    ] = None,
    hold_and_wait_grace: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="SECONDS",
            help="How long a client that holds all slots may leave them idle and wait for more.  "
            "[default: 10]",
        ),
    ] = None,
    session_timeout: Annotated[
        float | None,
        typer.Option(
            min=0.001, metavar="SECONDS", help="End sessions that idle as long.  [default: never]"
        ),
    ] = None,
    mode: Annotated[
        ServerMode | None,
        typer.Option(
            help="In production nobody resets, steps or reads state.  [default: OPENENV_MODE, else "
            "simulation]"
        ),
    ] = None,
    isolation: Annotated[
        Isolation | None,
        typer.Option(
            help="Where an environment's code runs; process gives each session a process of its "
            "own, shared and inline are for what never blocks.  [default: what the environment "
            "says, else thread]"
        ),
    ] = None,
    worker_memory: Annotated[
        int | None,
        typer.Option(
            parser=parse_size,
            metavar="SIZE",
            help="Limit the address space of each session's process, as 512M or 2G.",
        ),
    ] = None,
    max_snapshots: Annotated[
        int,
        typer.Option(
            min=0, help="Snapshots to keep, those that were used last; 0 for none at all."
        ),
    ] = serving.MAX_SNAPSHOTS,
    max_snapshot_bytes: Annotated[
        int | None,
        typer.Option(
            parser=parse_size,
            metavar="SIZE",
            help="What they may take together, as 64M or 2G.  [default: 256M]",
        ),
    ] = None,
    env_name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Serve a single TARGET under this name.")
    ] = None,
    action: Annotated[
        str | None,
        typer.Option(metavar="MODULE:CLASS", help="Action class of a single TARGET."),
    ] = None,
    observation: Annotated[
        str | None,
        typer.Option(metavar="MODULE:CLASS", help="Observation class of a single TARGET."),
    ] = None,
    state: Annotated[
        str | None,
        typer.Option(metavar="MODULE:CLASS", help="State class of a single TARGET."),
    ] = None,
    drain_timeout: Annotated[
        float,
        typer.Option(
            min=0, metavar="SECONDS", help="How long episodes may go on after SIGTERM or a drain."
        ),
    ] = serving.DRAIN_TIMEOUT_S,
    progress_interval: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            metavar="SECONDS",
            help="How often clients that ask for progress are told of what takes long.  "
            "[default: 5]",
        ),
    ] = None,
    ping_interval: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="SECONDS",
            help="How often connections are pinged; 0 for never.  [default: 15 by gRPC, 20 over "
            "a WebSocket]",
        ),
    ] = None,
    ping_timeout: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            metavar="SECONDS",
            help="How long the answer to a ping may take before the connection ends.  [default: "
            "10 by gRPC, else as long as the interval]",
        ),
    ] = None,
    redact_errors: Annotated[
        bool,
        typer.Option(
            "--redact-errors", help="Tell clients nothing of an environment's exceptions."
        ),
    ] = False,
    log_level: Annotated[LogLevel, typer.Option(help="What to log.")] = LogLevel.INFO,
    log_format: Annotated[LogFormat, typer.Option(help="How to log.")] = LogFormat.TEXT,
) -> None:
    """Serve environments until Ctrl-C or SIGTERM.

    SIGTERM drains: new sessions and episodes are refused, and those under way go on until they end
    or the time is up. Ctrl-C, or a second signal, does not wait for them.

    Once every door listens, prints one line to standard output: READY grpc=HOST:PORT
    http=HOST:PORT. Logs go to standard error.
    """
    configure_logs(log_level, log_format)
    overrides = Overrides(name=env_name, action=action, observation=observation, state=state)
    if overrides != Overrides() and len(targets) > 1:
        raise ConfigurationError(
            "--env-name, --action, --observation and --state are for a single TARGET"
        )
    # Taken away, so that what environments start does not inherit it: an agent's shell, for one.
    token = os.environ.pop(TOKEN_VARIABLE, "")
    serving.serve(
        *(load(target, overrides) for target in targets),
        on_ready=_announce,
        host=host,
        grpc_port=None if no_grpc else grpc_port,
        http_port=None if no_http else http_port,
        unix=unix,
        insecure=insecure,
        tokens=token.strip() or None if token_file is None else None,
        token_file=token_file,
        tls_cert=tls_cert,
        tls_key=tls_key,
        tls_client_ca=tls_client_ca,
        public_url=public_url,
        allowed_hosts=allowed_host or (),
        allowed_origins=allowed_origin or (),
        mode=mode,
        max_sessions=max_sessions,
        session_timeout_s=session_timeout,
        progress_interval_s=progress_interval,
        ping_interval_s=ping_interval,
        ping_timeout_s=ping_timeout,
        redact_errors=redact_errors,
        isolation=isolation,
        worker_memory_bytes=worker_memory,
        max_snapshots=max_snapshots,
        max_snapshot_bytes=max_snapshot_bytes or serving.MAX_SNAPSHOT_BYTES,
        drain_timeout_s=drain_timeout,
        queue_timeout_s=queue_timeout,
        max_queued=max_queued,
        refuse_when_full=refuse_when_full,
        detached_grace_s=detached_grace,
        hold_and_wait_grace_s=hold_and_wait_grace,
    )


def _announce(server: serving.Server) -> None:
    doors = {"grpc": server.grpc_address, "http": server.http_address, "unix": server.unix_path}
    listed = (f"{door}={address}" for door, address in doors.items() if address is not None)
    print("READY", *listed, flush=True)
