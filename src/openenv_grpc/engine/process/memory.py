"""The memory of a worker process: its limit."""

from __future__ import annotations

import resource


def limit(size_bytes: int) -> None:
    """Limits the address space: what goes beyond it is a `MemoryError`."""
    resource.setrlimit(resource.RLIMIT_AS, (size_bytes, size_bytes))
