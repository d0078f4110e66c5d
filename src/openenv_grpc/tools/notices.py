"""What a tool tells while it runs: how far it is, and what it logs."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from openenv_grpc.serialization import to_plain
from openenv_grpc.tools.surroundings import within
from openenv_grpc.types import JsonValue

LogLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
"""Levels of MCP, from the least to the most urgent."""
LOG_LEVELS: tuple[str, ...] = get_args(LogLevel)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolProgress:
    """How far a tool is."""

    progress: float
    """How much is done. It grows from one report to the next."""
    total: float | None = None
    """How much there is to do; `None` where that is not known."""
    message: str = ""
    """What the tool is doing, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLog:
    """Something that a tool logs for its caller."""

    level: LogLevel
    data: JsonValue
    """Text, or any other value that JSON can carry."""
    logger: str = ""
    """Who logs it. May be empty."""


ToolNotice: TypeAlias = ToolProgress | ToolLog
Tell = Callable[[ToolNotice], None]
"""Takes a notice, from any thread."""

_TELL: ContextVar[Tell | None] = ContextVar("openenv_grpc_tell", default=None)


def report_progress(progress: float, total: float | None = None, message: str = "") -> None:
    """Tells the caller of the tool that runs how far it is.

    It works in plain and in asynchronous tools, in `step` and in `reset`, and does nothing where
    nobody listens. A caller who lags behind may miss all but the latest of many reports.
    """
    tell = _TELL.get()
    if tell is not None:
        told = None if total is None else float(total)
        tell(ToolProgress(progress=float(progress), total=told, message=message))


def report_log(data: JsonValue, level: LogLevel = "info", logger: str = "") -> None:
    """Tells the caller of the tool that runs something: text, or any value that JSON can carry.

    It works in plain and in asynchronous tools, in `step` and in `reset`, and does nothing where
    nobody listens.

    Raises:
        ValueError: MCP has no such level.
        UnserializableResultError: the value cannot become JSON.
    """
    if level not in LOG_LEVELS:
        raise ValueError(f"a level of a log is one of {', '.join(LOG_LEVELS)}, not {level!r}")
    tell = _TELL.get()
    if tell is not None:
        tell(ToolLog(level=level, data=to_plain(data), logger=logger))


def listener() -> Tell | None:
    """Returns who listens to the tool that runs."""
    return _TELL.get()


def heard(tell: Tell, call: Callable[[], Any]) -> Any:
    """Makes a call such that somebody listens, even to what of it is awaited later."""
    return within(_TELL, tell, call)
