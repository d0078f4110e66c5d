"""The options by which commands are known to a server, and a server to them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypedDict

import typer

from openenv_grpc.errors import ConfigurationError
from openenv_grpc.protection import read_tokens

TokenOption = Annotated[
    str | None,
    typer.Option(
        metavar="TOKEN",
        help="Token for a server that asks for one. Others on this machine can see it; better use "
        "--token-file, or the variable OPENENV_GRPC_TOKEN.",
        show_default=False,
    ),
]
TokenFileOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="File whose first token to use.", show_default=False),
]
TlsCaOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Certificates to trust, not the system's (PEM).", show_default=False
    ),
]
TlsCertOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Own certificate, if the server asks (PEM).", show_default=False
    ),
]
TlsKeyOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Its key (PEM).", show_default=False),
]


class Credentials(TypedDict):
    """What clients take of it."""

    token: str | None
    tls_ca: Path | None
    tls_cert: Path | None
    tls_key: Path | None


def credentials(
    token: str | None,
    token_file: Path | None,
    tls_ca: Path | None,
    tls_cert: Path | None,
    tls_key: Path | None,
) -> Credentials:
    """Takes the options. Raises `ConfigurationError` for two tokens, or a file without one."""
    if token_file is not None:
        if token is not None:
            raise ConfigurationError("give --token or --token-file, not both")
        token = read_tokens(token_file)[0]
    return Credentials(token=token, tls_ca=tls_ca, tls_cert=tls_cert, tls_key=tls_key)
