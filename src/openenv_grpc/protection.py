"""What protects a server's doors: tokens, certificates, and the hosts and pages that may come."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

import grpc

from openenv_grpc.access import environment_tokens
from openenv_grpc.errors import ConfigurationError
from openenv_grpc.options import FilePath


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """What a server shows, and whom it asks for the same."""

    chain: bytes
    key: bytes = field(repr=False)
    client_ca: bytes | None
    """Who vouches for clients; `None` if none has to show a certificate."""
    context: ssl.SSLContext
    """The same for Python's TLS."""

    def for_grpc(self) -> grpc.ServerCredentials:
        """Returns the same for gRPC."""
        return grpc.ssl_server_credentials(
            [(self.key, self.chain)],
            root_certificates=self.client_ca,
            require_client_auth=self.client_ca is not None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Protection:
    """How a server's doors are protected."""

    tokens: tuple[str, ...] = field(repr=False)
    """Those of trainers. Without any, none is asked for."""
    certificate: Certificate | None
    allowed_hosts: tuple[str, ...]
    allowed_origins: tuple[str, ...]
    public_url: str
    """Where the HTTP door is reached from elsewhere; empty if that is not known."""


def protect(
    *,
    tokens: str | Sequence[str] | None,
    token_file: FilePath | None,
    tls_cert: FilePath | None,
    tls_key: FilePath | None,
    tls_client_ca: FilePath | None,
    allowed_hosts: Iterable[str],
    allowed_origins: Iterable[str],
    public_url: str | None,
) -> Protection:
    """Reads what is given. The environment's token counts if no other is.

    Raises:
        ConfigurationError: a file cannot be read, or something makes no sense.
    """
    given = [tokens] if isinstance(tokens, str) else list(tokens or ())
    if token_file is not None:
        given += read_tokens(token_file)
    elif tokens is None:
        given += environment_tokens()
    hosts, origins = tuple(allowed_hosts), tuple(allowed_origins)
    for host in hosts:
        if not host or "/" in host:
            raise ConfigurationError(f"{host!r} is no host; --allowed-host takes a name, or '*'")
    for origin in origins:
        if origin != "*" and not _is_web_url(origin, path=False):
            raise ConfigurationError(
                f"{origin!r} is no origin; --allowed-origin takes https://HOST[:PORT], or '*'"
            )
    if public_url and not _is_web_url(public_url, path=True):
        raise ConfigurationError(
            f"{public_url!r} is no usable URL; --public-url takes https://HOST"
        )
    return Protection(
        tokens=tuple(_checked(token) for token in given),
        certificate=read_certificate(tls_cert, tls_key, tls_client_ca),
        allowed_hosts=hosts,
        allowed_origins=origins,
        public_url=(public_url or "").rstrip("/"),
    )


def read_tokens(path: FilePath) -> list[str]:
    """Reads a file of tokens, one a line. Empty lines, and those that begin with `#`, do not count.

    Raises:
        ConfigurationError: it cannot be read, or has no token.
    """
    try:
        text = _read(path, "--token-file").decode()
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path} is no file of tokens: it is not text") from error
    lines = (line.strip() for line in text.splitlines())
    tokens = [_checked(line) for line in lines if line and not line.startswith("#")]
    if not tokens:
        raise ConfigurationError(f"{path} has no token; write one a line")
    return tokens


def read_certificate(
    cert: FilePath | None, key: FilePath | None, client_ca: FilePath | None
) -> Certificate | None:
    """Reads a server's certificate; `None` if none is given.

    Raises:
        ConfigurationError: a file is missing, or not what it should be.
    """
    if cert is None or key is None:
        if (cert, key, client_ca) == (None, None, None):
            return None
        raise ConfigurationError("TLS needs a certificate and its key: --tls-cert and --tls-key")
    content = _read(cert, "--tls-cert"), _read(key, "--tls-key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(cert, key, password=_refuse_password)
    except ssl.SSLError as error:
        raise ConfigurationError(
            f"{cert} and {key} are no certificate and its key, in PEM"
        ) from error
    authority = None
    if client_ca is not None:
        authority = _read(client_ca, "--tls-client-ca")
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(client_ca)
        except ssl.SSLError as error:
            raise ConfigurationError(f"{client_ca} has no certificates, in PEM") from error
    return Certificate(chain=content[0], key=content[1], client_ca=authority, context=context)


def _refuse_password() -> NoReturn:
    raise ConfigurationError("the key of --tls-key has a password; give one without")


def _read(path: FilePath, option: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigurationError(f"cannot read {path} ({option}): {error.strerror}") from error


def _checked(token: str) -> str:
    """Returns a token that fits into a header. A message must not show one that does not."""
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigurationError("a token is of printable ASCII characters without spaces")
    return token


def _is_web_url(text: str, *, path: bool) -> bool:
    try:
        parts = urlsplit(text)
        _ = parts.port  # is read, and refused, only when asked for
    except ValueError:
        return False
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        return False
    return path or not parts.path.strip("/")
