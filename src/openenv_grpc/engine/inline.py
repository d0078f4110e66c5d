"""Calls on the event loop itself, and who hears of those that held it up."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable
from typing import Any

from openenv_grpc.engine.relay import Done
from openenv_grpc.engine.worker import Call
from openenv_grpc.events import log_event

logger = logging.getLogger(__name__)

LONG_S = 0.05
"""How long a call on the event loop may take before the log says so: everybody else waits."""

WARNING_INTERVAL_S = 60.0
"""Between two such warnings about one environment."""


class InlineWorker:
    """Runs calls at once, on the event loop: for environments that never block.

    A call that takes long is logged with the environment's name, once a minute at most.
    """

    ended = True

    def __init__(self, environment: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._environment = environment
        self._clock = clock
        self._warned_at: float | None = None
        self._long_calls = 0  # since the last warning

    def run(self, call: Call, argument: Any, done: Done) -> None:
        """Runs a call and then `done`."""
        begun = self._clock()
        try:
            result = call(argument)
        except BaseException as error:  # foreign code may even raise SystemExit
            result = error
        took_s = self._clock() - begun
        if took_s > LONG_S:
            self._tell(took_s)
        done(argument, result)

    def stop(self) -> None:
        """Does nothing: there is no thread."""

    def _tell(self, took_s: float) -> None:
        self._long_calls += 1
        now = self._clock()
        if self._warned_at is not None and now - self._warned_at < WARNING_INTERVAL_S:
            return
        log_event(
            logger,
            logging.WARNING,
            "an inline call held up all sessions; choose another isolation",
            environment=self._environment,
            took_ms=round(took_s * 1e3),
            long_calls=self._long_calls,
        )
        self._warned_at, self._long_calls = now, 0


@functools.cache
def inline_worker(environment: str) -> InlineWorker:
    """Returns the one of an environment in this process."""
    return InlineWorker(environment)
