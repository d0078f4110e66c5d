"""What a client sends along, and whom it trusts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from openenv_grpc.client import AgentAccess, EnvClient, GenericEnvClient, MCPToolClient
from openenv_grpc.client.credentials import (
    TlsFiles,
    channel_credentials,
    request_headers,
    ssl_context,
)
from openenv_grpc.errors import InvalidRequestError, NotSupportedError
from tests.certificates import make_certificates
from tests.client.peers import ConnectPeer


@pytest.mark.parametrize(
    ("headers", "token", "sent"),
    [
        ({}, None, ()),
        ({"X-One": "1"}, None, (("X-One", "1"),)),
        ({}, "secret", (("Authorization", "Bearer secret"),)),
        ({"authorization": "Basic x"}, None, (("authorization", "Basic x"),)),
        ({}, "", ()),
    ],
)
def test_a_token_is_sent_as_a_header(
    headers: dict[str, str], token: str | None, sent: tuple[tuple[str, str], ...]
) -> None:
    assert request_headers(headers, token) == sent


@pytest.mark.parametrize(
    ("headers", "token", "sent"),
    [
        ({}, None, "Bearer of-the-environment"),
        ({}, "own", "Bearer own"),
        ({"authorization": "Basic x"}, None, "Basic x"),
    ],
)
def test_the_environments_token_is_sent_if_there_is_no_other(
    monkeypatch: pytest.MonkeyPatch, headers: dict[str, str], token: str | None, sent: str
) -> None:
    monkeypatch.setenv("OPENENV_GRPC_TOKEN", "of-the-environment")

    assert [value for _, value in request_headers(headers, token)] == [sent]


@pytest.mark.parametrize("kind", [GenericEnvClient, MCPToolClient])
@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"token": "two words"}, "without spaces"),
        ({"token": "naïve"}, "printable ASCII"),
        ({"token": "a", "headers": {"Authorization": "Bearer b"}}, "not both"),
        ({"tls_cert": "cert.pem"}, "tls_cert and tls_key"),
        ({"tls_key": "key.pem"}, "tls_cert and tls_key"),
        ({"tls_ca": "ca.pem"}, "grpcs://"),
        ({"tls_cert": "cert.pem", "tls_key": "key.pem"}, "grpcs://"),
    ],
)
def test_what_cannot_be_sent_or_used_is_refused(
    kind: type[EnvClient[Any, Any, Any]], options: dict[str, Any], told: str
) -> None:
    with pytest.raises(InvalidRequestError, match=told) as refused:
        kind(base_url="grpc://127.0.0.1:1", **options)
    assert "two words" not in str(refused.value)
    assert "naïve" not in str(refused.value)


def test_a_client_shows_no_token() -> None:
    client = GenericEnvClient(base_url="grpc://127.0.0.1:1", token="secret-token")

    assert "secret-token" not in repr(client)
    assert "secret-token" not in repr(client._options)


@pytest.mark.parametrize("scheme", ["grpcs", "wss"])
async def test_certificates_that_cannot_be_read_are_told(tmp_path: Path, scheme: str) -> None:
    missing = GenericEnvClient(
        base_url=f"{scheme}://127.0.0.1:1", tls_ca=tmp_path / "missing", connect_timeout_s=5
    )
    with pytest.raises(InvalidRequestError, match="tls_ca") as refused:
        await missing.connect()
    assert str(tmp_path) not in str(refused.value)


def test_certificates_are_read(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    files = TlsFiles(ca=str(made.ca), cert=str(made.client), key=str(made.client_key))

    assert channel_credentials(files) is not None
    assert ssl_context(files) is not True
    assert ssl_context(TlsFiles()) is True  # the system's, which is made once
    with pytest.raises(InvalidRequestError):
        ssl_context(TlsFiles(cert=str(made.client), key=str(made.server_key)))


def test_access_that_has_no_url_makes_no_mcp_json() -> None:
    with pytest.raises(NotSupportedError):
        AgentAccess(url="", token="", session_id="1").mcp_json()


async def test_a_server_that_offers_no_access_is_not_asked_for_it() -> None:
    peer = ConnectPeer()
    async with peer.serve() as url, GenericEnvClient(url) as client:
        with pytest.raises(NotSupportedError, match="offers no access"):
            await client.agent_access()

    assert not peer.operations[0].open.agent_access
