"""`info`: what a server offers, door by door."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Annotated

import typer

from openenv_grpc.cli.credentials import (
    TlsCaOption,
    TlsCertOption,
    TlsKeyOption,
    TokenFileOption,
    TokenOption,
    credentials,
)
from openenv_grpc.cli.output import show


def info(
    url: Annotated[
        str,
        typer.Argument(
            metavar="URL", help="grpc://HOST:PORT, unix:PATH, http://HOST:PORT or ws://HOST:PORT."
        ),
    ],
    env: Annotated[
        str, typer.Option(metavar="NAME", help="Only this environment.", show_default=False)
    ] = "",
    timeout: Annotated[
        float, typer.Option(min=0.001, metavar="SECONDS", help="How long to wait for the server.")
    ] = 10.0,
    token: TokenOption = None,
    token_file: TokenFileOption = None,
    tls_ca: TlsCaOption = None,
    tls_cert: TlsCertOption = None,
    tls_key: TlsKeyOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")] = False,
) -> None:
    """Show what a server offers: environments, schemas, capabilities, budgets and doors.

    By HTTP a server tells less of itself than by gRPC.
    """
    # Here, so that `--help` is quick.
    from openenv_grpc.client.catalog import describe

    given = credentials(token, token_file, tls_ca, tls_cert, tls_key)
    for description in asyncio.run(describe(url, env, timeout_s=timeout, **given)):
        told = {
            key: value for key, value in asdict(description).items() if value not in ("", None, {})
        }
        show(told, as_json=as_json)
