"""Where the worker processes of a server are, for who has dialled one of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath
from urllib.parse import urlsplit

from openenv_grpc.client.urls import Target
from openenv_grpc.crew import Crew, WorkerAddress

_WEB_PORTS = {"ws": 80, "wss": 443}


def worker_targets(target: Target, crew: Crew) -> tuple[Target, ...]:
    """Returns where each worker is, by their numbers, at the host that was dialled.

    Nothing is returned where that cannot be known: something stands between that maps ports, or
    has names of its own.
    """
    own = crew.addresses[crew.worker]
    if own.public_url and not target.grpc and _under(target, own.public_url):
        beyond = target.uri.removeprefix(_socket_url(own.public_url))
        found = [_at_url(target, each.public_url, beyond) for each in crew.addresses]
    elif target.web_socket_path:
        found = [
            _at_web_path(target, own.http_unix_path, each.http_unix_path) for each in crew.addresses
        ]
    elif target.grpc and target.uri.startswith("unix:"):
        found = [_at_path(target, own.unix_path, each.unix_path) for each in crew.addresses]
    else:
        found = [_at_port(target, own, each) for each in crew.addresses]
    if found[crew.worker] is not None:
        found[crew.worker] = target  # as it was written
    known = tuple(each for each in found if each is not None)
    return known if len(known) == crew.size else ()


def _under(target: Target, public_url: str) -> bool:
    return target.uri.startswith(f"{_socket_url(public_url)}/")


def _socket_url(public_url: str) -> str:
    return "ws" + public_url.removeprefix("http")


def _at_url(target: Target, public_url: str, beyond: str) -> Target | None:
    return replace(target, uri=_socket_url(public_url) + beyond) if public_url else None


def _at_path(target: Target, own: str, other: str) -> Target | None:
    path = _beside(target.uri.removeprefix("unix:"), own, other)
    return None if path is None else replace(target, uri=f"unix:{path}")


def _at_web_path(target: Target, own: str, other: str) -> Target | None:
    path = _beside(target.web_socket_path, own, other)
    if path is None:
        return None
    return replace(target, uri=f"http+unix:{path}", web_socket_path=path)


def _beside(path: str, own: str, other: str) -> str | None:
    """Returns where another socket is, in the folder of one that was dialled by its own name."""
    dialled = PurePath(path)
    if not other or dialled.name != PurePath(own).name:
        return None
    return str(dialled.with_name(PurePath(other).name))


def _at_port(target: Target, own: WorkerAddress, other: WorkerAddress) -> Target | None:
    parts = urlsplit(f"grpc://{target.uri}" if target.grpc else target.uri)
    dialled = parts.port or _WEB_PORTS.get(parts.scheme)
    here, there = (
        (own.grpc_port, other.grpc_port) if target.grpc else (own.http_port, other.http_port)
    )
    if not there or dialled != here:
        return None
    host = parts.netloc if parts.port is None else parts.netloc.rpartition(":")[0]
    netloc = f"{host}:{there}"
    return replace(target, uri=netloc if target.grpc else parts._replace(netloc=netloc).geturl())
