"""What protects a server's doors, read from arguments and files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from openenv_grpc.errors import ConfigurationError
from openenv_grpc.protection import Protection, protect, read_certificate, read_tokens
from tests.certificates import make_certificates


def protection(**given: Any) -> Protection:
    nothing: dict[str, Any] = {
        "tokens": None,
        "token_file": None,
        "tls_cert": None,
        "tls_key": None,
        "tls_client_ca": None,
        "allowed_hosts": (),
        "allowed_origins": (),
        "public_url": None,
    }
    return protect(**{**nothing, **given})


def test_a_file_of_tokens_has_one_a_line(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text("# of the trainers\n\n  first \nsecond\r\n\t# third\n")

    assert read_tokens(path) == ["first", "second"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "has no token"),
        (b"# nothing\n\n", "has no token"),
        ("naïve\n".encode(), "printable ASCII"),
        (b"two words\n", "without spaces"),
        (b"\xff\xfe", "not text"),
    ],
)
def test_a_file_without_usable_tokens_is_refused(tmp_path: Path, content: bytes, told: str) -> None:
    path = tmp_path / "tokens"
    path.write_bytes(content)

    with pytest.raises(ConfigurationError, match=told) as refused:
        read_tokens(path)
    assert "naïve" not in str(refused.value)
    assert "two words" not in str(refused.value)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="--token-file"):
        read_tokens(tmp_path / "missing")


@pytest.mark.parametrize(
    ("given", "tokens"),
    [
        ({}, ("of-the-environment",)),
        ({"tokens": "one"}, ("one",)),
        ({"tokens": ["one", "two"]}, ("one", "two")),
        ({"tokens": []}, ()),
        ({"token_file": "tokens"}, ("of-the-file",)),
        ({"tokens": "one", "token_file": "tokens"}, ("one", "of-the-file")),
    ],
)
def test_the_environments_token_counts_where_no_other_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: Any, tokens: tuple[str, ...]
) -> None:
    monkeypatch.setenv("OPENENV_GRPC_TOKEN", "of-the-environment")
    monkeypatch.chdir(tmp_path)
    Path("tokens").write_text("of-the-file\n")

    assert protection(**given).tokens == tokens


def test_a_protection_shows_no_secrets(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    shown = repr(protection(tokens="secret-token", tls_cert=made.server, tls_key=made.server_key))

    assert "secret-token" not in shown
    assert "PRIVATE KEY" not in shown


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"allowed_hosts": ["http://lab.example"]}, "--allowed-host"),
        ({"allowed_hosts": [""]}, "--allowed-host"),
        ({"allowed_origins": ["lab.example"]}, "--allowed-origin"),
        ({"allowed_origins": ["https://lab.example/page"]}, "--allowed-origin"),
        ({"public_url": "lab.example"}, "--public-url"),
        ({"public_url": "https://lab.example:port"}, "--public-url"),
        ({"tokens": ""}, "a token is of"),
    ],
)
def test_what_makes_no_sense_is_refused(given: Any, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        protection(**given)


def test_what_makes_sense_is_taken() -> None:
    made = protection(
        allowed_hosts=["*", "lab.example"],
        allowed_origins=["*", "https://lab.example:8443"],
        public_url="https://lab.example/env/",
    )

    assert made.public_url == "https://lab.example/env"
    assert made.certificate is None


def test_certificates_that_are_of_no_use_are_refused(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    text = tmp_path / "text.pem"
    text.write_text("text")
    for cert, key, client_ca, told in [
        (made.server, None, None, "--tls-cert and --tls-key"),
        (None, made.server_key, None, "--tls-cert and --tls-key"),
        (None, None, made.ca, "--tls-cert and --tls-key"),
        (tmp_path / "missing", made.server_key, None, "--tls-cert"),
        (made.server, tmp_path / "missing", None, "--tls-key"),
        (made.server, made.client_key, None, "no certificate and its key"),
        (text, made.server_key, None, "no certificate and its key"),
        (made.server, made.server_key, tmp_path / "missing", "--tls-client-ca"),
        (made.server, made.server_key, text, "no certificates"),
    ]:
        with pytest.raises(ConfigurationError, match=told):
            read_certificate(cert, key, client_ca)
