"""The command tree."""

from __future__ import annotations

from typing import Annotated

import typer

from openenv_grpc import __version__
from openenv_grpc.cli.commands import Commands

# What follows `\b` is shown as it stands.
FIRST_STEPS = """\b
First steps, in two terminals:
  openenv-grpc serve echo_env
  openenv-grpc call grpc://127.0.0.1:50051 step '{"message": "hello"}'
"""

command = typer.Typer(
    name="openenv-grpc",
    cls=Commands,
    help="Serve environments for training agents over gRPC, WebSocket, HTTP and MCP, and drive "
    "them from a terminal.",
    epilog=FIRST_STEPS,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"openenv-grpc {__version__}")
        raise typer.Exit


@command.callback()
def _root(
    show_version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Takes what stands before the command."""
