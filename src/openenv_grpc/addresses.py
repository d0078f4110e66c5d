"""Where a server may listen: loopback or beyond, free or taken."""

from __future__ import annotations

import errno
import ipaddress
import socket
import stat
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from openenv_grpc.errors import ConfigurationError


def is_loopback(host: str) -> bool:
    """Tells whether only this machine reaches an address. Names but `localhost` do not count."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def join(host: str, port: int) -> str:
    """Writes host and port, an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def reachable(address: str) -> str:
    """Returns where to connect to what was listened on; with all interfaces, loopback is one."""
    for everywhere, loopback in (("0.0.0.0:", "127.0.0.1:"), ("[::]:", "[::1]:")):
        if address.startswith(everywhere):
            return loopback + address.removeprefix(everywhere)
    return address


def check_port(host: str, port: int, option: str) -> None:
    """Tries a port, since gRPC does not say what is wrong with one, and logs that besides.

    Raises:
        ConfigurationError: it is taken, or not this machine's. Names the `option` to change.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        failures = [_bind_failure(family, address) for family, *_, address in found]
    except OSError as error:
        failures = [error]
    taken = [error for error in failures if error is not None]
    # A name may have an address that this machine lacks: `localhost`, where there is no IPv6.
    if taken and (None not in failures or any(each.errno == errno.EADDRINUSE for each in taken)):
        raise ConfigurationError(
            f"cannot listen on {join(host, port)}: {taken[0].strerror}; stop what listens "
            f"there, or choose another port ({option}, 0 for a free one)"
        ) from taken[0]


def _bind_failure(family: int, address: Any) -> OSError | None:
    try:
        socket.create_server(address, family=family).close()
    except OSError as error:
        return error
    return None


def check_socket(path: Path, option: str) -> None:
    """Sees to it that nobody's socket or file is taken away, and that one can be made at all.

    `option` is what would name another.

    Raises:
        ConfigurationError: something is there, or nothing can be.
    """
    try:
        mode = path.stat().st_mode
    except OSError:
        _try_socket(path, option)
        return
    if not stat.S_ISSOCK(mode):
        raise ConfigurationError(f"{path} is there already and is no socket; choose another path")
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return  # left behind by a server that was killed
    raise ConfigurationError(f"a server listens on {path} already; choose another path")


def keep_socket(path: Path, stack: AsyncExitStack) -> None:
    """Keeps a socket to its owner, and has it taken away in the end."""
    stack.callback(path.unlink, missing_ok=True)
    path.chmod(0o600)  # whoever can write to it drives the environments


def _try_socket(path: Path, option: str) -> None:
    """Makes a socket and takes it away, since gRPC does not say why it could not."""
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.bind(str(path))
    except OSError as error:
        raise ConfigurationError(
            f"cannot listen on unix:{path}: {error.strerror or error}; choose a path in a folder "
            f"that exists and can be written to ({option})"
        ) from error
    path.unlink()
