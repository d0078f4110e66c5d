"""How a server logs: text for people, JSON for machines, both to standard error."""

from __future__ import annotations

import enum
import json
import logging
import sys
from datetime import UTC, datetime

from openenv_grpc.events import event_of, facts_of
from openenv_grpc.log_rates import PeerLogLimit


class LogLevel(enum.StrEnum):
    """What to log."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(enum.StrEnum):
    """How to log."""

    TEXT = "text"
    JSON = "json"


class JsonFormatter(logging.Formatter):
    """One JSON object a line: the event, its facts, and what every line has."""

    def __init__(self, worker: int | None = None) -> None:
        """Makes one; each line has the number of the `worker`, where the server has several."""
        super().__init__()
        self._of_process = {} if worker is None else {"worker": worker}

    def format(self, record: logging.LogRecord) -> str:
        """Writes a record."""
        fields = {
            **self._of_process,
            **facts_of(record),
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": event_of(record),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        elif record.exc_text:  # from the process of an environment
            fields["exception"] = record.exc_text
        return json.dumps(fields, ensure_ascii=False)


class TextFormatter(logging.Formatter):
    """Text for people, with the session of whoever logs without naming it."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's name
        """Writes a record's line, which its traceback follows."""
        facts = () if "facts" in vars(record) else facts_of(record).items()
        return " ".join((super().formatMessage(record), *(f"{name}={it}" for name, it in facts)))


def configure_logs(
    level: LogLevel,
    style: LogFormat,
    *,
    lines_per_minute: float | None = None,
    worker: int | None = None,
) -> None:
    """Has everything logged to standard error; of each peer so many lines, if that is said.

    Where the server has several worker processes, each line tells the number of this `worker`.
    """
    handler = logging.StreamHandler(sys.stderr)
    match style:
        case LogFormat.JSON:
            handler.setFormatter(JsonFormatter(worker))
        case LogFormat.TEXT:
            who = "" if worker is None else f"worker {worker} "
            line = f"%(asctime)s %(levelname)-7s {who}%(name)s: %(message)s"
            handler.setFormatter(TextFormatter(line))
    if lines_per_minute is not None:
        handler.addFilter(PeerLogLimit(lines_per_minute))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
