"""What happens, as a log tells it: an event, its facts, and the session in which it happened."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

Fact = str | int | float | None

NO_FACTS: Mapping[str, Fact] = {}

SESSION_ID: ContextVar[str] = ContextVar("openenv_session_id", default="")
"""The session whose environment runs here, so that what it logs is known to be of it."""


@contextmanager
def in_session(session_id: str) -> Iterator[None]:
    """Has what is logged in the block be of a session."""
    before = SESSION_ID.set(session_id)
    try:
        yield
    finally:
        SESSION_ID.reset(before)


def log_event(
    logger: logging.Logger,
    level: int,
    event: str,
    facts: Mapping[str, Fact] = NO_FACTS,
    /,
    *,
    error: BaseException | None = None,
    **more: Fact,
) -> None:
    """Logs an event: as text with its facts, and with both on the record, for machines.

    A fact that is `None` is left out. The traceback of an `error` goes along. `event` is a constant
    without `%`.
    """
    if not logger.isEnabledFor(level):
        return
    told = {name: fact for name, fact in {**facts, **more}.items() if fact is not None}
    logger.log(
        level,
        " ".join((event, *(f"{name}=%s" for name in told))),
        *told.values(),
        exc_info=error,
        stacklevel=2,
        extra={"event": event, "facts": told},
    )


def event_of(record: logging.LogRecord) -> str:
    """Returns what a record tells, without its facts."""
    event: str | None = vars(record).get("event")
    return record.getMessage() if event is None else event


def facts_of(record: logging.LogRecord) -> Mapping[str, Fact]:
    """Returns the facts of a record, and the session of whoever logs it, if it names none.

    It is called where the record is logged, or gets what `carried` returned there.
    """
    told = vars(record)
    session_id = told.get("session_id") or SESSION_ID.get()
    facts: dict[str, Fact] = told.get("facts", NO_FACTS)
    return {"session_id": session_id, **facts} if session_id else facts


def carried(record: logging.LogRecord, session_id: str) -> dict[str, object]:
    """Returns what a record needs to tell the same elsewhere, logged by a session's process."""
    names = ("event", "facts")
    told: dict[str, object] = {name: it for name, it in vars(record).items() if name in names}
    return {"session_id": session_id, **told}
