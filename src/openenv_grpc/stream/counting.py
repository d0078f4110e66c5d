"""How many operations a message has, told before it is parsed, which takes memory for each."""

from __future__ import annotations

import enum

from openenv_grpc.errors import MessageTooLargeError
from openenv_grpc.wire.varints import read_varint

_LEAST_BYTES = 2
"""What an operation takes in a message: its tag, and its length."""

_OPERATIONS = 2 << 3 | 2
"""Tag of `ConnectRequest.operations`."""


class _WireType(enum.IntEnum):
    """Kinds of fields, in the lowest three bits of their tags."""

    VARINT = 0
    FIXED_64 = 1
    LENGTH = 2
    FIXED_32 = 5


def check_count(data: bytes, most: int) -> None:
    """Refuses a `ConnectRequest` of more than `most` operations. Small ones are not looked into.

    What is no message passes: parsing says so.

    Raises:
        MessageTooLargeError: it has more.
    """
    if len(data) <= most * _LEAST_BYTES:
        return
    try:
        count = _count(data, most)
    except IndexError:
        return
    if count > most:
        raise MessageTooLargeError(
            f"a message of the stream has more than {most} operations; send fewer at once"
        )


def _count(data: bytes, most: int) -> int:
    """Counts operations, up to one more than `most`. Raises `IndexError` for a broken field."""
    count = at = 0
    end = len(data)
    while at < end and count <= most:
        tag, at = read_varint(data, at)
        match tag & 7:
            case _WireType.LENGTH:
                length, at = read_varint(data, at)
                at += length
                count += tag == _OPERATIONS
            case _WireType.VARINT:
                _, at = read_varint(data, at)
            case _WireType.FIXED_64:
                at += 8
            case _WireType.FIXED_32:
                at += 4
            case _:
                raise IndexError
    if at > end:
        raise IndexError
    return count
