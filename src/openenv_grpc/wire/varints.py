"""Protobuf's variable-length integers, for what is serialized by hand."""

from __future__ import annotations


def varint(number: int) -> bytes:
    """Writes a protobuf varint; negative numbers take ten bytes, as protobuf has it."""
    if 0 <= number < 0x80:
        return _SMALL[number]
    number &= 0xFFFF_FFFF_FFFF_FFFF
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


_SMALL = tuple(bytes([number]) for number in range(0x80))
