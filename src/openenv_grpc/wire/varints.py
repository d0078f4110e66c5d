"""Protobuf's variable-length integers, for what is serialized by hand."""

from __future__ import annotations

import functools


@functools.lru_cache(maxsize=4096)  # lengths and ids come again and again
def varint(number: int) -> bytes:
    """Writes a protobuf varint; negative numbers take ten bytes, as protobuf has it."""
    number &= 0xFFFF_FFFF_FFFF_FFFF
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Reads a number; returns it, and where the next field is. Raises `IndexError` if broken."""
    value = shift = 0
    while (byte := data[at]) >= 0x80:
        value |= (byte & 0x7F) << shift
        shift += 7
        at += 1
        if shift > 63:
            raise IndexError
    return value | byte << shift, at + 1
