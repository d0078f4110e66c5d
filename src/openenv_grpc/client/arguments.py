"""What a client is told by its user, checked."""

from __future__ import annotations

import os

from openenv_grpc.errors import InvalidRequestError
from openenv_grpc.types import JsonValue, ServerMode
from openenv_grpc.wire import durations


def check_positive(**numbers: float | None) -> None:
    """Refuses numbers that are not above 0. Raises `InvalidRequestError`."""
    for name, number in numbers.items():
        if number is not None and not number > 0:
            raise InvalidRequestError(f"{name} has to be above 0, not {number!r}")


def at_least_0(name: str, seconds: float) -> float:
    """Returns a time. Raises `InvalidRequestError` if it is less than 0, or no time."""
    if not 0 <= seconds <= durations.MAX_S:
        raise InvalidRequestError(f"{name} has to be at least 0, not {seconds!r}")
    return seconds


def read_timeout(timeout_s: JsonValue) -> float | None:
    """Reads the limit of one call. Raises `InvalidRequestError` if it is none."""
    if timeout_s is None:
        return None
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, (int, float)) or not timeout_s > 0:
        raise InvalidRequestError(f"timeout_s has to be a number above 0, not {timeout_s!r}")
    return float(timeout_s)


def read_mode(mode: str | None) -> ServerMode:
    """Reads what the server's mode is taken to be. Raises `InvalidRequestError`."""
    given = os.environ.get("OPENENV_CLIENT_MODE", "simulation") if mode is None else mode
    try:
        return ServerMode(given.lower())
    except ValueError:
        raise InvalidRequestError(
            f"the mode {given!r} is not known; it is simulation or production"
        ) from None
