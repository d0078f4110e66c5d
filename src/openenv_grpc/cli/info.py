"""`info`: what a server offers, in short or whole."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Annotated

import typer

from openenv_grpc.cli.credentials import CredentialOptions
from openenv_grpc.cli.grouping import with_groups
from openenv_grpc.cli.output import show


@with_groups
def info(
    *,
    url: Annotated[
        str,
        typer.Argument(
            metavar="URL",
            help="grpc://HOST:PORT, unix:PATH, http://HOST:PORT, ws://HOST:PORT or http+unix:PATH.",
        ),
    ],
    env: Annotated[
        str, typer.Option(metavar="NAME", help="Only this environment.", show_default=False)
    ] = "",
    timeout: Annotated[
        float, typer.Option(min=0.001, metavar="SECONDS", help="How long to wait for the server.")
    ] = 10.0,
    by: CredentialOptions,
    schemas: Annotated[
        bool, typer.Option("--schemas", help="Print all of it, with whole JSON Schemas.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print all of it, a JSON object a line, for scripts.")
    ] = False,
) -> None:
    """Show what a server offers: environments, how they are reached, and what actions they take.

    By HTTP a server tells less of itself than by gRPC.
    """
    # Here, so that `--help` is quick.
    from openenv_grpc.cli.summary import summary
    from openenv_grpc.client.catalog import describe

    given = by.credentials()
    described = asyncio.run(describe(url, env, timeout_s=timeout, **given))
    for number, description in enumerate(described):
        told = {
            key: value
            for key, value in asdict(description).items()
            if value not in ("", None, {}, [])
        }
        shown = told if as_json or schemas else summary(description, url)
        show(shown, as_json=as_json, first=number == 0)
