"""Which rows are run, and what Ctrl-C does to those that are not."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from bench.processes import BenchError
from bench.rows import Row
from bench.runner import say


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


@contextmanager
def interruptible() -> Iterator[None]:
    """Leaves the block, its own blocks first, on Ctrl-C and SIGTERM; what comes after goes on."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        say("interrupted: this is what was measured so far")
