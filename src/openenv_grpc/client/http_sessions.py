"""What connects to a server that speaks HTTP, over TCP or on a Unix socket."""

from __future__ import annotations

import aiohttp

from openenv_grpc.client.credentials import TlsFiles, ssl_context


def connector(tls: TlsFiles, *, unix_path: str = "") -> aiohttp.BaseConnector:
    """Makes it. Raises `InvalidRequestError` if a certificate cannot be read."""
    if unix_path:
        return aiohttp.UnixConnector(unix_path)
    return aiohttp.TCPConnector(ssl=ssl_context(tls))
