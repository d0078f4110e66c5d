from __future__ import annotations

import pytest

from openenv_grpc.client.urls import parse_url
from openenv_grpc.errors import InvalidRequestError


@pytest.mark.parametrize(
    ("base_url", "uri"),
    [
        ("127.0.0.1:8000", "ws://127.0.0.1:8000/ws"),
        ("localhost:8000/", "ws://localhost:8000/ws"),
        ("http://127.0.0.1:8000/", "ws://127.0.0.1:8000/ws"),
        ("ws://127.0.0.1:8000", "ws://127.0.0.1:8000/ws"),
        ("https://host.example", "wss://host.example/ws"),
        ("wss://host.example/prefix/", "wss://host.example/prefix/ws"),
        ("HTTP://host.example", "ws://host.example/ws"),
    ],
)
def test_web_urls_become_the_socket_under_their_path(base_url: str, uri: str) -> None:
    target = parse_url(base_url)
    assert target.uri == uri
    assert not target.grpc


@pytest.mark.parametrize("scheme", ["http+unix", "ws+unix", "HTTP+UNIX"])
def test_web_sockets_may_be_on_a_unix_socket(scheme: str) -> None:
    target = parse_url(f"{scheme}:run/server.sock")
    assert (target.uri, target.grpc) == ("http+unix:run/server.sock", False)
    assert (target.web_socket_path, target.loopback) == ("run/server.sock", True)
    assert (target.web_url, target.http_url) == ("ws://localhost/ws", "http://localhost")


@pytest.mark.parametrize(
    ("base_url", "uri", "secure"),
    [
        ("grpc://127.0.0.1:50051", "127.0.0.1:50051", False),
        ("grpc://[::1]:1234", "[::1]:1234", False),
        ("grpc://host.example", "host.example:50051", False),
        ("grpcs://host.example/", "host.example:443", True),
        ("unix:server.sock", "unix:server.sock", False),
        ("unix:///run/server.sock", "unix:/run/server.sock", False),
    ],
)
def test_grpc_urls_become_targets(base_url: str, uri: str, secure: bool) -> None:
    target = parse_url(base_url)
    assert (target.uri, target.secure, target.grpc) == (uri, secure, True)


@pytest.mark.parametrize(
    ("base_url", "loopback"),
    [
        ("grpc://127.0.0.1:1", True),
        ("grpc://[::1]:1", True),
        ("http://localhost", True),
        ("unix:x", True),
        ("http://host.example", False),
    ],
)
def test_this_machine_is_told_from_others(base_url: str, loopback: bool) -> None:
    assert parse_url(base_url).loopback is loopback


@pytest.mark.parametrize(
    "base_url",
    [
        "",
        "ftp://host",
        "grpc://",
        "grpc://host:port",
        "grpc://host:99999",
        "grpc://host/path",
        "grpc://user:password@host",
        "http://host?query=1",
        "http://host#fragment",
        "http://ho st",
        "unix:",
        "unix://relative",
        "http+unix:",
        "ws+unix://relative",
        "http://[::1",
    ],
)
def test_other_urls_are_refused_with_the_forms_that_are_known(base_url: str) -> None:
    with pytest.raises(InvalidRequestError, match="grpc://HOST:PORT"):
        parse_url(base_url)
