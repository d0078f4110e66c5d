"""UUIDs that nobody can guess, of randomness that is fetched for many at once.

Each fetch lets other threads run, and its thread waits for its turn again: that takes longer than
all the rest of making an id.
"""

from __future__ import annotations

import os
import sys

_BYTES = 16
_AT_ONCE = 256

_VERSION_4 = 0x4 << 76 | 0x2 << 62
_OTHERS = ~(0xF << 76 | 0x3 << 62)

_unused: list[bytes] = []
if sys.platform != "win32":
    os.register_at_fork(after_in_child=_unused.clear)  # else both would make the same


def random_uuid() -> str:
    """Makes a UUID of version 4."""
    return written(random_bits() & _OTHERS | _VERSION_4)


def random_bits() -> int:
    """Returns 128 bits that nobody can guess, from any thread."""
    try:
        return int.from_bytes(_unused.pop(), "big")
    except IndexError:
        fetched = os.urandom(_BYTES * _AT_ONCE)
        own, *others = (fetched[start : start + _BYTES] for start in range(0, len(fetched), _BYTES))
        _unused.extend(others)
        return int.from_bytes(own, "big")


def written(number: int) -> str:
    """Writes a number of 128 bits as UUIDs are written."""
    text = f"{number:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
