"""The options by which commands are known to a server, and a server to them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from openenv_grpc.errors import ConfigurationError
from openenv_grpc.protection import read_tokens

if TYPE_CHECKING:
    from openenv_grpc.client.credentials import Credentials


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialOptions:
    """By what right a server is asked, and which one is believed."""

    token: Annotated[
        str | None,
        typer.Option(
            metavar="TOKEN",
            help="Token for a server that asks for one. Others on this machine can see it; better "
            "use --token-file, or the variable OPENENV_GRPC_TOKEN.",
            show_default=False,
        ),
    ] = None
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File whose first token to use.", show_default=False),
    ] = None
    tls_ca: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Certificates to trust, not the system's (PEM).",
            show_default=False,
        ),
    ] = None
    tls_cert: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Own certificate, if the server asks (PEM).", show_default=False
        ),
    ] = None
    tls_key: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Its key (PEM).", show_default=False),
    ] = None

    def credentials(self) -> Credentials:
        """Reads them. Raises `ConfigurationError` for two tokens, or a file without one."""
        token = self.token
        if self.token_file is not None:
            if token is not None:
                raise ConfigurationError("give --token or --token-file, not both")
            token = read_tokens(self.token_file)[0]
        return {
            "token": token,
            "tls_ca": self.tls_ca,
            "tls_cert": self.tls_cert,
            "tls_key": self.tls_key,
        }
