"""By what a client is known to a server, and a server to it: a token, certificates."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

import grpc

from openenv_grpc.access import environment_tokens
from openenv_grpc.client.urls import Target
from openenv_grpc.errors import InvalidRequestError

FilePath = str | os.PathLike[str]
Headers = tuple[tuple[str, str], ...]

_HEADER_NAME = re.compile("[0-9A-Za-z_.-]+")


class Credentials(TypedDict, total=False):
    """What calls take that ask a server by some right."""

    token: str | None
    tls_ca: FilePath | None
    tls_cert: FilePath | None
    tls_key: FilePath | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """Files of certificates, in PEM."""

    ca: str | None = None
    """Who vouches for the server; `None` for those whom the system trusts."""
    cert: str | None = None
    """What the client shows, for servers that ask."""
    key: str | None = field(default=None, repr=False)


def tls_files(
    target: Target | None, ca: FilePath | None, cert: FilePath | None, key: FilePath | None
) -> TlsFiles:
    """Takes the files that are given; `target` is the server, if that is known yet.

    Raises:
        InvalidRequestError: they are of no use.
    """
    if (cert is None) is not (key is None):
        raise InvalidRequestError("a client's certificate needs its key: tls_cert and tls_key")
    if (ca is not None or cert is not None) and target is not None and not target.secure:
        raise InvalidRequestError(
            "certificates are for servers with TLS; use grpcs://, https:// or wss://"
        )
    ca, cert, key = (None if path is None else os.fspath(path) for path in (ca, cert, key))
    return TlsFiles(ca=ca, cert=cert, key=key)


def request_headers(headers: Mapping[str, str] | None, token: str | None) -> Headers:
    """Returns what is sent along: headers, and a token, the environment's if there is no other.

    Raises:
        InvalidRequestError: they cannot be sent.
    """
    sent = dict(headers or {})
    for name, value in sent.items():
        if not _HEADER_NAME.fullmatch(name):
            raise InvalidRequestError(f"{name!r} is no name of a header")
        if not (value.isascii() and value.isprintable()):  # which is not shown: it may be a token
            raise InvalidRequestError(f"the header {name} has to be of printable ASCII characters")
    authorized = any(name.lower() == "authorization" for name in sent)
    if token is not None and authorized:
        raise InvalidRequestError("give a token, or a header of authorization, not both")
    if token is None and not authorized:
        token = next(iter(environment_tokens()), None)
    if token:
        if not (token.isascii() and token.isprintable()) or " " in token:
            raise InvalidRequestError("a token is of printable ASCII characters without spaces")
        sent["Authorization"] = f"Bearer {token}"
    return tuple(sorted(sent.items()))


def channel_credentials(files: TlsFiles) -> grpc.ChannelCredentials:
    """Returns what gRPC's TLS takes. Raises `InvalidRequestError` if a file cannot be read."""
    return grpc.ssl_channel_credentials(
        root_certificates=_system_roots() if files.ca is None else _read(files.ca, "tls_ca"),
        private_key=None if files.key is None else _read(files.key, "tls_key"),
        certificate_chain=None if files.cert is None else _read(files.cert, "tls_cert"),
    )


def ssl_context(files: TlsFiles) -> ssl.SSLContext | bool:
    """Returns what aiohttp's TLS takes. Raises `InvalidRequestError` if a file cannot be read."""
    if files == TlsFiles():
        return True  # the system's certificates, read once
    if files.ca is not None:
        _read(files.ca, "tls_ca")  # says better than `ssl` what is wrong
    try:
        context = ssl.create_default_context(cafile=files.ca)
        if files.cert is not None and files.key is not None:
            context.load_cert_chain(files.cert, files.key, password=lambda: "")
    except OSError as error:
        raise InvalidRequestError(
            f"the certificates cannot be used: {error.strerror or error}"
        ) from error
    return context


def _system_roots() -> bytes | None:
    """Reads the certificates to trust: those of `SSL_CERT_FILE`, else the system's.

    `None` leaves it to gRPC: the file that `GRPC_DEFAULT_SSL_ROOTS_FILE_PATH` names, or its own.
    """
    if "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH" in os.environ:
        return None
    named = os.environ.get("SSL_CERT_FILE") or ssl.get_default_verify_paths().cafile
    return None if named is None else _read(named, "SSL_CERT_FILE")


def _read(path: str, what: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InvalidRequestError(
            f"the certificates that {what} names cannot be read: {error.strerror}"
        ) from error
