"""Certificates for the tests of TLS: an authority's, a server's, a client's."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Key = ec.EllipticCurvePrivateKey


@dataclass(frozen=True)
class Certificates:
    """Files in PEM."""

    ca: Path
    other_ca: Path
    """Vouches for nobody."""
    server: Path
    server_key: Path
    client: Path
    client_key: Path
    foreign: Path
    """A client's, of the other authority."""
    foreign_key: Path


def make_certificates(folder: Path) -> Certificates:
    """Writes certificates into a folder."""
    authority, authority_key = _authority("tests")
    other, other_key = _authority("others")
    files = {"ca": _write(folder / "ca.pem", authority)}
    files["other_ca"] = _write(folder / "other_ca.pem", other)
    for name, issuer, key in [
        ("server", authority, authority_key),
        ("client", authority, authority_key),
        ("foreign", other, other_key),
    ]:
        own_key = ec.generate_private_key(ec.SECP256R1())
        certificate = _builder(name, own_key, issuer.subject)
        certificate = certificate.add_extension(
            x509.SubjectAlternativeName(
                [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
            ),
            critical=False,
        ).add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        files[name] = _write(folder / f"{name}.pem", certificate.sign(key, hashes.SHA256()))
        path = folder / f"{name}.key"
        path.write_bytes(
            own_key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        files[f"{name}_key"] = path
    return Certificates(**files)


def _authority(name: str) -> tuple[x509.Certificate, Key]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = _builder(name, key, subject).add_extension(
        x509.BasicConstraints(ca=True, path_length=None), critical=True
    )
    return builder.sign(key, hashes.SHA256()), key


def _builder(name: str, key: Key, issuer: x509.Name) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
    )


def _write(path: Path, certificate: x509.Certificate) -> Path:
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return path
