"""What the doors of a server take: how much at once, and how often they look after their peers."""

from __future__ import annotations

from typing import Any

from openenv_grpc.errors import ConfigurationError

MAX_MESSAGE_BYTES = 100 * 2**20
MAX_JSON_BYTES = 16 * 2**20
MIN_MESSAGE_BYTES = 1024
MAX_UNSENT_BYTES = 32 * 2**20
MAX_SHARED_BYTES = 256 * 2**20
MAX_BEAT_S = 86_400.0


def sizes(
    *, max_message_bytes: int, max_unsent_bytes: int, max_shared_bytes: int
) -> dict[str, int]:
    """Checks how much they take. Raises `ConfigurationError`."""
    if max_shared_bytes < 0:
        raise ConfigurationError(f"max_shared_bytes is at least 0, not {max_shared_bytes}")
    if max_message_bytes < MIN_MESSAGE_BYTES or max_unsent_bytes < 1:
        raise ConfigurationError(
            f"messages may have at least {MIN_MESSAGE_BYTES} bytes, and one be unsent"
        )
    return {
        "max_message_bytes": max_message_bytes,
        "max_unsent_bytes": max_unsent_bytes,
        "max_shared_bytes": max_shared_bytes,
    }


def json_size(max_json_bytes: int) -> dict[str, int]:
    """Checks how much WebSockets of JSON take. Raises `ConfigurationError`."""
    if max_json_bytes < MIN_MESSAGE_BYTES:
        raise ConfigurationError(f"frames of JSON may have at least {MIN_MESSAGE_BYTES} bytes")
    return {"max_json_bytes": max_json_bytes}


def beats(**times: float | None) -> dict[str, Any]:
    """Checks how often they do what. Raises `ConfigurationError`."""
    given = {name: seconds for name, seconds in times.items() if seconds is not None}
    for name, seconds in given.items():
        is_time = 0 < seconds <= MAX_BEAT_S or (seconds == 0 and name == "ping_interval_s")
        if not is_time:
            raise ConfigurationError(f"{name} is above 0 and at most a day, not {seconds!r}")
    return given
