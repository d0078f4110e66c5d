"""Lengths of time: seconds to `Duration` messages and back."""

from __future__ import annotations

from google.protobuf import duration_pb2

from openenv_grpc.errors import InvalidRequestError

MAX_S = 315_576_000_000
"""The longest time that a `Duration` may say: ten thousand years."""


def fill_duration(message: duration_pb2.Duration, seconds: float) -> None:
    """Fills a duration in place, so that it is set even if it is 0."""
    message.FromNanoseconds(round(seconds * 1e9))
    message.SetInParent()


def read_duration(message: duration_pb2.Duration, *, what: str, least_s: float = 1e-9) -> float:
    """Returns the seconds.

    Raises:
        InvalidRequestError: they are less than `least_s`, or more than a `Duration` may say.
    """
    seconds: float = message.ToNanoseconds() / 1e9
    if not least_s <= seconds <= MAX_S:
        bound = "at least 0" if least_s == 0 else "longer than 0"
        raise InvalidRequestError(f"a {what} is {bound}; leave it out for no limit")
    return seconds
