"""How many operations a message has, told before it is parsed, which takes memory for each."""

from __future__ import annotations

import enum

from openenv_grpc.errors import MessageTooLargeError

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
        tag, at = _varint(data, at)
        match tag & 7:
            case _WireType.LENGTH:
                length, at = _varint(data, at)
                at += length
                count += tag == _OPERATIONS
            case _WireType.VARINT:
                _, at = _varint(data, at)
            case _WireType.FIXED_64:
                at += 8
            case _WireType.FIXED_32:
                at += 4
            case _:
                raise IndexError
    if at > end:
        raise IndexError
    return count


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Reads a number; returns it, and where the next field is."""
    value = shift = 0
    while (byte := data[at]) >= 0x80:
        value |= (byte & 0x7F) << shift
        shift += 7
        at += 1
        if shift > 63:
            raise IndexError
    return value | byte << shift, at + 1
