"""Who may come through a server's doors."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from openenv_grpc.access import TOKEN_VARIABLE
from openenv_grpc.options import ServerOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectionOptions:
    """Tokens, certificates, hosts and origins."""

    insecure: Annotated[
        bool,
        typer.Option(
            "--insecure",
            envvar="OPENENV_GRPC_INSECURE",
            help="Listen on a --host beyond this machine without a token, where whoever reaches it "
            "drives the environments.",
        ),
    ] = False
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Ask for one of these tokens, one a line.  [default: that of OPENENV_GRPC_TOKEN, "
            "if it is set]",
        ),
    ] = None
    agent_tokens: Annotated[
        bool,
        typer.Option(
            "--agent-tokens",
            envvar="OPENENV_GRPC_AGENT_TOKENS",
            help="Give agents tokens, each of one session, though trainers have none: /mcp and "
            "ToolService take nothing else then, and who brings no token is a trainer at the other "
            "doors. With trainers' tokens agents have theirs anyway.",
        ),
    ] = False
    tls_cert: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Speak TLS, with this certificate (PEM).")
    ] = None
    tls_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The certificate's key (PEM).")
    ] = None
    tls_client_ca: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Ask clients for a certificate that these vouch for."),
    ] = None
    public_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Where HTTP is reached from elsewhere, for agents to be told."
        ),
    ] = None
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A name by which HTTP requests may ask for this server, or '*'; may be repeated.  "
            "[default: those of loopback and --host; beyond loopback any]",
        ),
    ] = None
    allowed_origin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN",
            help="Web pages that may use this server, https://HOST[:PORT] or '*'; may be "
            "repeated.  [default: its own]",
        ),
    ] = None

    def server_options(self) -> ServerOptions:
        """Returns what the server takes, the token of this process's environment included.

        That is taken away, so that what environments start does not inherit it: an agent's shell,
        for one.
        """
        token = os.environ.pop(TOKEN_VARIABLE, "")
        return ServerOptions(
            insecure=self.insecure,
            tokens=token.strip() or None if self.token_file is None else None,
            token_file=self.token_file,
            agent_tokens=self.agent_tokens,
            tls_cert=self.tls_cert,
            tls_key=self.tls_key,
            tls_client_ca=self.tls_client_ca,
            public_url=self.public_url,
            allowed_hosts=self.allowed_host or (),
            allowed_origins=self.allowed_origin or (),
        )
