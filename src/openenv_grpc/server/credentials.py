"""A certificate as gRPC takes it."""

from __future__ import annotations

import grpc


def server_credentials(
    key: bytes, chain: bytes, *, client_ca: bytes | None
) -> grpc.ServerCredentials:
    """Returns what TLS takes; with a `client_ca` clients show a certificate, too."""
    return grpc.ssl_server_credentials(
        [(key, chain)],
        root_certificates=client_ca,
        require_client_auth=client_ca is not None,
    )
