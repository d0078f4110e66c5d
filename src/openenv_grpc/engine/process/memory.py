"""The memory of a worker process: its limit, and what it keeps for the next observation."""

from __future__ import annotations

import ctypes
import resource
import sys
from contextlib import suppress

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD
_KEPT_BYTES = 32 * 2**20


def limit(size_bytes: int) -> None:
    """Limits the address space: what goes beyond it is a `MemoryError`."""
    resource.setrlimit(resource.RLIMIT_AS, (size_bytes, size_bytes))


def keep_blocks() -> None:
    """Has blocks of some MiB kept for reuse.

    By default glibc's main thread hands them back at once, and gets them anew page by page: an
    observation of 1 MiB then takes five times as long.
    """
    if sys.platform == "linux":
        with suppress(AttributeError):  # other C libraries have no such function
            library = ctypes.CDLL(None)
            library.mallopt(_MMAP_THRESHOLD, _KEPT_BYTES)
            library.mallopt(_TRIM_THRESHOLD, 2 * _KEPT_BYTES)
