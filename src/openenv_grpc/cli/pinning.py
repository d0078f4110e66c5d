"""Processes that stay on one processor."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from openenv_grpc.errors import ConfigurationError

if TYPE_CHECKING:
    from openenv_grpc.workers.setup import Prepare


def check_pin(isolation: str | None) -> None:
    """Refuses to pin where that is of no use. Raises `ConfigurationError`."""
    if sys.platform != "linux":
        raise ConfigurationError("--pin works on Linux alone; leave it out")
    if isolation == "process":
        raise ConfigurationError(
            "--pin would keep all processes of --isolation process on one processor; leave one out"
        )


def pin(worker: int) -> None:
    """Keeps this process on one of the processors that it may use.

    That is the first of them for the first worker, and so on, and again from the first one on.
    Threads and processes that it starts stay there, too.
    """
    allowed = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {allowed[worker % len(allowed)]})


def prepare_pinned(prepare: Prepare, *, worker: int) -> None:
    """Prepares a worker's process, and pins it."""
    prepare(worker=worker)
    pin(worker)
