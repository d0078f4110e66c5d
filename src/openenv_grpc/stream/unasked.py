"""What a stream says without being asked: progress, events, and that the server drains."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from openenv_grpc.errors import OpenEnvError
from openenv_grpc.operations import Deliver, Operation
from openenv_grpc.sessions import SessionHost, SessionPort, Watch
from openenv_grpc.stream.outbox import Outbox, prefix_of
from openenv_grpc.stream.reports import Reports
from openenv_grpc.wire import events

logger = logging.getLogger(__name__)

DRAINING = "draining"
"""The feature of clients that take the event of that name."""

_STREAM_PREFIX = prefix_of(-1)  # the number of no session
_TOOL_EVENTS = events.ToolEventCodec()


class Unasked:
    """Says nothing, and costs nothing, unless somebody wants to know.

    Where the client does not read, beats, reports and tool calls are left out.
    """

    def __init__(
        self, host: SessionHost, outbox: Outbox, *, interval_s: float, max_unsent_bytes: int
    ) -> None:
        self.outcome_limit = 0
        """What a client takes, in bytes. Set before anything is said."""
        self._host = host
        self._outbox = outbox
        self._interval_s = interval_s
        self._max_unsent_bytes = max_unsent_bytes
        self._followed: dict[bytes, SessionPort] = {}  # by prefix
        self.reported: set[bytes] = set()
        """Prefixes of the sessions with reports. Where there are none nobody need be `heard`."""
        self._tasks: asyncio.TaskGroup | None = None
        self._beating: asyncio.Task[None] | None = None
        self._awaiting_drain: asyncio.Task[None] | None = None

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Says things from now on, until `stop`, by tasks of that group."""
        self._tasks = tasks

    def stop(self) -> None:
        """Says nothing any more."""
        self._tasks = None
        for task in (self._beating, self._awaiting_drain):
            if task is not None:
                task.cancel()

    def watch(self, prefix: bytes) -> Watch:
        """Has the tool calls of a session told, and that the server drains."""
        self.tell_draining()
        return Watch(_TOOL_EVENTS, partial(self._tell, prefix))

    def follow(self, prefix: bytes, session: SessionPort, *, reports: bool) -> None:
        """Tells at every beat what is under way in a session; by `reports` what its code tells."""
        self._followed[prefix] = session
        if reports:
            self.reported.add(prefix)
        if self._beating is None and self._tasks is not None:
            self._beating = self._tasks.create_task(self._beat())

    def heard(self, prefix: bytes, operation: Operation, deliver: Deliver) -> Deliver:
        """Has told what an operation's code tells of itself, in a session with reports.

        Returns what takes the reply.
        """
        if prefix not in self.reported:
            return deliver
        reports = Reports(operation, partial(self._tell_report, prefix), deliver)
        operation.listener = reports
        return reports.answer

    def forget(self, prefix: bytes) -> None:
        """Tells nothing more of what is under way in a session."""
        self._followed.pop(prefix, None)
        self.reported.discard(prefix)

    def tell_draining(self) -> None:
        """Tells that the server drains, once it does."""
        if self._awaiting_drain is None and self._tasks is not None:
            self._awaiting_drain = self._tasks.create_task(self._follow_drain())

    def lost(self, prefix: bytes, error: OpenEnvError) -> None:
        """Tells that a session has ended, or is held elsewhere. That is said to everybody."""
        content = events.session_lost(error)
        if len(content) > self.outcome_limit:
            content = events.session_lost(error, brief=True)
        self._outbox.put_framed(content, prefix)

    def _tell(self, prefix: bytes, event: bytes) -> None:
        if len(event) > self.outcome_limit:
            event = events.without_contents(event)
        if len(event) > self.outcome_limit or self._is_full:
            logger.debug("tool call not told bytes=%d", len(event))
        else:
            self._outbox.put_framed(event, prefix)

    def _tell_report(self, prefix: bytes, report: bytes) -> None:
        told = self._tasks is not None and prefix in self.reported
        if told and len(report) <= self.outcome_limit and not self._is_full:
            self._outbox.put_framed(report, prefix)

    @property
    def _is_full(self) -> bool:
        return self._outbox.size_bytes >= self._max_unsent_bytes

    async def _beat(self) -> None:
        while self._followed:
            await asyncio.sleep(self._interval_s)
            if self._is_full:
                continue
            for prefix, session in self._followed.items():
                for operation in session.under_way():
                    if operation.elapsed_s >= self._interval_s / 2:  # else it has just begun
                        self._outbox.put_framed(events.progress(operation), prefix)
        self._beating = None

    async def _follow_drain(self) -> None:
        await self._host.until_draining()
        event = events.draining(self._host.drain_remaining_s)
        self._outbox.put_framed(event, _STREAM_PREFIX)
