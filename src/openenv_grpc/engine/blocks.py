"""Blocks of memory that a process keeps for the next observation."""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD
_KEPT_BYTES = 32 * 2**20


def keep_blocks() -> None:
    """Has blocks of some MiB kept for reuse.

    By default glibc hands them back at once, and gets them anew page by page: an observation of
    1 MiB then takes five times as long. It holds for the whole process, so only programs of ours
    ask for it.
    """
    if sys.platform == "linux":
        with suppress(AttributeError):  # other C libraries have no such function
            library = ctypes.CDLL(None)
            library.mallopt(_MMAP_THRESHOLD, _KEPT_BYTES)
            library.mallopt(_TRIM_THRESHOLD, 2 * _KEPT_BYTES)
