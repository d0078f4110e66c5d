"""What callers give a client, checked before anything is sent."""

from __future__ import annotations

import os
from collections.abc import Mapping

from openenv_grpc import busy_polling
from openenv_grpc.client.credentials import FilePath, request_headers, tls_files
from openenv_grpc.client.transport import ConnectionOptions
from openenv_grpc.client.urls import Target
from openenv_grpc.errors import ConfigurationError, InvalidRequestError
from openenv_grpc.types import JsonValue, ServerMode
from openenv_grpc.wire import durations

SHARED_MEMORY_VARIABLE = "OPENENV_GRPC_SHARED_MEMORY"


def check_positive(**numbers: float | None) -> None:
    """Refuses numbers that are not above 0."""
    for name, number in numbers.items():
        if number is not None and not number > 0:
            raise InvalidRequestError(f"{name} has to be above 0, not {number!r}")


def at_least_0(name: str, seconds: float) -> float:
    """Returns a time in seconds. Refuses one below 0, and one that is none."""
    if not 0 <= seconds <= durations.MAX_S:
        raise InvalidRequestError(f"{name} has to be at least 0, not {seconds!r}")
    return seconds


def window(window_s: float | None) -> float | None:
    """Returns a resume window; `None` for none."""
    return at_least_0("resume_window_s", window_s or 0.0) or None


def timeout(timeout_s: JsonValue) -> float | None:
    """Returns the limit of one operation; `None` for none."""
    if timeout_s is None:
        return None
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, (int, float)) or not timeout_s > 0:
        raise InvalidRequestError(f"timeout_s has to be a number above 0, not {timeout_s!r}")
    if timeout_s > durations.MAX_S:
        raise InvalidRequestError(
            f"timeout_s has to be at most {durations.MAX_S}, not {timeout_s!r}; leave it out for "
            "no limit"
        )
    return float(timeout_s)


def mode(given: str | None) -> ServerMode:
    """Returns the mode that a client was given, else that of `OPENENV_CLIENT_MODE`."""
    named = os.environ.get("OPENENV_CLIENT_MODE", "simulation") if given is None else given
    try:
        return ServerMode(named.lower())
    except ValueError:
        raise InvalidRequestError(
            f"the mode {named!r} is not known; it is simulation or production"
        ) from None


def connection_options(
    target: Target | None,
    *,
    max_message_size_mb: float,
    ping_interval_s: float | None,
    ping_timeout_s: float | None,
    headers: Mapping[str, str] | None,
    token: str | None,
    tls_ca: FilePath | None,
    tls_cert: FilePath | None,
    tls_key: FilePath | None,
    shared_memory: bool | None,
) -> ConnectionOptions:
    """Returns what is said of a connection. Raises `InvalidRequestError`."""
    return ConnectionOptions(
        max_message_bytes=int(max_message_size_mb * 2**20),
        ping_interval_s=ping_interval_s,
        ping_timeout_s=ping_timeout_s,
        headers=request_headers(headers, token),
        tls=tls_files(target, tls_ca, tls_cert, tls_key),
        shared_memory=_shared_memory() if shared_memory is None else shared_memory,
        busy_poll_s=_busy_poll_s(),
    )


def _busy_poll_s() -> float:
    try:
        return busy_polling.limit_of_variable()
    except ConfigurationError as error:
        raise InvalidRequestError(str(error)) from None


def _shared_memory() -> bool | None:
    """Returns what the variable says: 0 for never, 1 for always, nothing for what is local."""
    match os.environ.get(SHARED_MEMORY_VARIABLE, ""):
        case "":
            return None
        case "0" | "1" as said:
            return said == "1"
        case said:
            raise InvalidRequestError(f"{SHARED_MEMORY_VARIABLE} is 0 or 1, not {said!r}")
