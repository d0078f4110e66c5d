"""Which rows are run, and what Ctrl-C does to those that are not."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from bench.processes import BenchError
from bench.rows import Row
from bench.runner import say

INTERRUPTED = 130
"""The status with which a run ends that was interrupted."""


def select(rows: Sequence[Row], pattern: str) -> list[Row]:
    """Returns the rows whose name has a match of a regular expression, in either case.

    Raises:
        BenchError: the expression is none, or no row matches.
    """
    try:
        wanted = re.compile(pattern, re.IGNORECASE)
    except re.error as error:
        raise BenchError(f"{pattern!r} is no regular expression: {error}") from error
    found = [row for row in rows if wanted.search(row.name)]
    if not found:
        names = "\n".join(f"  {row.name}" for row in rows)
        raise BenchError(f"no row matches {pattern!r}; there are\n{names}")
    return found


class Interruptible:
    """A block that Ctrl-C and SIGTERM leave, its own blocks first; what comes after goes on."""

    happened = False
    """Whether it was left so."""

    def __enter__(self) -> Self:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        self.happened = kind is not None and issubclass(kind, KeyboardInterrupt)
        if self.happened:
            say("interrupted: this is what was measured so far")
        return self.happened
