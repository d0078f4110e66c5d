"""Slots for sessions, and who waits for one: in order of arrival, groups whole or not at all."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from openenv_grpc.engine import capacity, verdicts
from openenv_grpc.engine.alarm import NEVER, Alarm
from openenv_grpc.engine.clock import Clock
from openenv_grpc.engine.registry import EngineSettings
from openenv_grpc.engine.resuming import Windows
from openenv_grpc.engine.session import Session
from openenv_grpc.environment_spec import EnvironmentSpec
from openenv_grpc.errors import OpenEnvError
from openenv_grpc.events import log_event
from openenv_grpc.sessions import QueuePlace, Wait

logger = logging.getLogger(__name__)

_SHORTEST_LOOK_S = 0.05


class Holder(Protocol):
    """A connection, as far as what it holds is concerned."""

    def held(self, environment: str) -> list[Session]:
        """Lists its sessions of an environment that have a slot and go on."""
        ...


_GroupKey = tuple[Holder | None, str, str]


@dataclass(slots=True, eq=False)
class _Ticket:
    """Openings that get their slots together: one, or a group."""

    spec: EnvironmentSpec
    holder: Holder | None
    group: str
    size: int
    arrived_at: float
    due: float = NEVER
    """When the wait ends."""
    told_at: float = -NEVER
    waits: dict[Session, Wait] = field(default_factory=dict)
    waiting: bool = True

    @property
    def key(self) -> _GroupKey:
        """What tells groups apart."""
        return self.holder, self.spec.name, self.group


class SlotQueue:
    """The slots of one host, by environment. Who waits is looked after by one timer for all."""

    def __init__(
        self,
        clock: Clock,
        settings: EngineSettings,
        windows: Windows,
        sessions: Callable[[], Iterable[Session]],
    ) -> None:
        self._clock = clock
        self._settings = settings
        self._windows = windows
        self._sessions = sessions
        self._taken: Counter[str] = Counter()
        self._queued: Counter[str] = Counter()  # openings in line
        self._lines: defaultdict[str, dict[_Ticket, None]] = defaultdict(dict)
        self._forming: dict[_GroupKey, _Ticket] = {}  # groups that are not complete
        self._tickets: dict[Session, _Ticket] = {}
        self._advancing: set[str] = set()
        self._alarm = Alarm(clock, self._look)

    # Coming in

    def take(self, spec: EnvironmentSpec) -> None:
        """Takes a slot for who does not wait. Raises `SessionCapacityError`."""
        if self._queued[spec.name] or not self._has_room(spec, 1):
            raise capacity.full(spec, self._taken[spec.name])
        self._taken[spec.name] += 1

    def enter(self, session: Session, wait: Wait, holder: Holder | None) -> None:
        """Gives a new session its slot, or has it wait for one.

        Raises:
            SessionCapacityError: it may not wait.
            InvalidRequestError: its group makes no sense.
        """
        now = self._clock.time()
        ticket = self._ticket(session.spec, wait, holder, now)
        limit_s = self._settings.queue_timeout_s
        if wait.timeout_s is not None:
            limit_s = min(limit_s, wait.timeout_s)
        ticket.due = min(ticket.due, now + limit_s)
        ticket.waits[session] = wait
        self._tickets[session] = ticket
        if len(ticket.waits) < ticket.size:
            self._forming[ticket.key] = ticket
            self._alarm.set(ticket.due)
            return
        self._forming.pop(ticket.key, None)
        try:
            self._line_up(ticket)
        except OpenEnvError as error:
            del ticket.waits[session], self._tickets[session]
            self._refuse(ticket, error, cause="refused")
            raise

    def _ticket(
        self, spec: EnvironmentSpec, wait: Wait, holder: Holder | None, now: float
    ) -> _Ticket:
        """Returns the ticket of a group that is not complete; a new one for everybody else."""
        size = wait.group_size
        if size > spec.session_limit:
            raise capacity.group_too_large(spec, size, self._settings.crew)
        ticket = _Ticket(spec, holder, wait.group, size, now)
        if not wait.group:
            return ticket
        formed = self._forming.get(ticket.key)
        if formed is not None and formed.size != size:
            raise capacity.group_of_another_size(wait.group, size, formed.size)
        if formed is None and size > 1:
            self._check_incomplete(spec)
        return formed or ticket

    def _check_incomplete(self, spec: EnvironmentSpec) -> None:
        """Refuses another incomplete group where those that are there could fill the queue."""
        expected = sum(ticket.size for ticket in self._forming.values())
        if expected >= max(self._settings.max_queued, spec.session_limit):
            raise capacity.queue_full(spec, self._taken[spec.name], expected)

    def _line_up(self, ticket: _Ticket) -> None:
        """Admits a ticket, or puts it at the end of the line. Raises `SessionCapacityError`."""
        spec = ticket.spec
        line = self._lines[spec.name]
        if not line and self._has_room(spec, ticket.size):
            self._admit(ticket)
            return
        taken = self._taken[spec.name]
        if not self._settings.max_queued or ticket.due <= self._clock.time():
            raise capacity.full(spec, taken)
        queued = self._queued.total()
        if queued + ticket.size > self._settings.max_queued:
            raise capacity.queue_full(spec, taken, queued)
        line[ticket] = None
        self._queued[spec.name] += ticket.size
        self._make_room(spec, 0)
        if ticket.waiting:
            log_event(
                logger,
                logging.DEBUG,
                "openings queued",
                environment=spec.name,
                count=ticket.size,
            )
            place = self._queued[spec.name] - ticket.size + 1
            self._tell(ticket, place)
            self._alarm.set(min(ticket.due, self._clock.time() + self._look_interval_s))

    def move(self, session: Session, wait: Wait, holder: Holder) -> None:
        """Has a session that waits keep its place although it is asked for elsewhere now."""
        ticket = self._tickets[session]
        ticket.waits[session] = wait
        forming = self._forming.pop(ticket.key, None)
        ticket.holder = holder
        if forming is not None:
            self._forming[ticket.key] = forming
        ticket.told_at = -NEVER
        self._alarm.set(self._clock.time())

    # Going on

    def free(self, spec: EnvironmentSpec) -> None:
        """Gives a slot back, and to who is next."""
        self._taken[spec.name] -= 1
        self._advance(spec)

    def leave(self, session: Session) -> None:
        """Notes that a session waits no more; nor does the rest of its group."""
        ticket = self._tickets.pop(session, None)
        if ticket is not None:
            del ticket.waits[session]
            self._refuse(ticket, capacity.group_left(ticket.group), cause="its group left")

    def refuse_all(self, error: OpenEnvError) -> None:
        """Has nobody wait any more."""
        waiting = dict.fromkeys(self._tickets.values())
        for ticket in waiting:
            self._drop(ticket)
        for ticket in waiting:
            self._end(ticket, error, cause="server stopped")

    def stop(self) -> None:
        """Looks no more."""
        self._alarm.stop()

    def _free(self, spec: EnvironmentSpec) -> int:
        return spec.session_limit - self._taken[spec.name]

    def _has_room(self, spec: EnvironmentSpec, size: int) -> bool:
        if self._free(spec) < size:
            self._make_room(spec, size)
        return self._free(spec) >= size

    def _make_room(self, spec: EnvironmentSpec, more: int) -> None:
        """Ends detached sessions as far as their slots are wanted, by the line and `more`."""
        while self._lacks(spec, more) and self._windows.evict(spec.name):
            pass

    def _lacks(self, spec: EnvironmentSpec, more: int) -> bool:
        """Tells whether slots are wanted that are neither free nor about to be."""
        lacking = self._queued[spec.name] + more - self._free(spec)
        return lacking > 0 and lacking > sum(
            session.is_over and not session.queued and session.spec.name == spec.name
            for session in self._sessions()
        )

    def _advance(self, spec: EnvironmentSpec) -> None:
        """Admits who is next. An environment that fails at once frees its slot from within."""
        name = spec.name
        if name in self._advancing:
            return
        self._advancing.add(name)
        line = self._lines[name]
        try:
            while line and self._free(spec) >= (first := next(iter(line))).size:
                self._drop(first)
                self._admit(first)
        finally:
            self._advancing.discard(name)

    def _admit(self, ticket: _Ticket) -> None:
        self._taken[ticket.spec.name] += ticket.size
        ticket.waiting = False
        for session in ticket.waits:
            del self._tickets[session]
        if ticket.told_at > -NEVER:
            self._tell(ticket, 0)
        for session in ticket.waits:
            session.admit()

    def _refuse(self, ticket: _Ticket, error: OpenEnvError, *, cause: str) -> None:
        self._drop(ticket)
        self._end(ticket, error, cause=cause)
        self._advance(ticket.spec)

    def _drop(self, ticket: _Ticket) -> None:
        """Takes a ticket out of the line, or from among the groups that are not complete."""
        ticket.waiting = False
        name = ticket.spec.name
        if ticket in self._lines[name]:
            del self._lines[name][ticket]
            self._queued[name] -= ticket.size
        elif self._forming.get(ticket.key) is ticket:
            del self._forming[ticket.key]

    def _end(self, ticket: _Ticket, error: OpenEnvError, *, cause: str) -> None:
        for session in ticket.waits:
            del self._tickets[session]
        for session in ticket.waits:
            session.end(verdicts.copied(error, error.effect), cause=cause)

    # Waiting

    @property
    def _look_interval_s(self) -> float:
        """How long nothing can come due that is not known to by now."""
        settings = self._settings
        shortest = min(
            settings.queue_beat_s, settings.detached_grace_s, settings.hold_and_wait_grace_s
        )
        return max(shortest, _SHORTEST_LOOK_S)

    def _look(self) -> None:
        """Ends waits that are over, makes room, tells places, and sees when to look again."""
        now = self._clock.time()
        for ticket in dict.fromkeys(self._tickets.values()):
            if ticket.waiting and ticket.due <= now:
                self._expire(ticket)
        due = now + self._look_interval_s
        for line in list(self._lines.values()):
            if line:
                spec = next(iter(line)).spec
                self._make_room(spec, 0)
                due = min(due, self._end_deadlocks(spec, now))
                evictable_at = self._windows.evictable_at(spec.name)
                due = min(due, evictable_at if evictable_at > now else NEVER)
        self._tell_places(now)
        if self._tickets:
            self._alarm.set(min(due, min(ticket.due for ticket in self._tickets.values())))

    def _expire(self, ticket: _Ticket) -> None:
        spec, limit_s = ticket.spec, ticket.due - ticket.arrived_at
        if len(ticket.waits) < ticket.size:
            error = capacity.group_incomplete(ticket.group, ticket.size, len(ticket.waits), limit_s)
        else:
            error = capacity.waited_too_long(spec, self._taken[spec.name], limit_s)
        self._refuse(ticket, error, cause="no slot in time")

    def _end_deadlocks(self, spec: EnvironmentSpec, now: float) -> float:
        """Refuses who waits for slots that its own connection holds, and does not use.

        Returns when there may be more to refuse, as far as that is known.
        """
        waiting: defaultdict[Holder, list[_Ticket]] = defaultdict(list)
        for ticket in self._lines[spec.name]:
            if ticket.holder is not None:
                waiting[ticket.holder].append(ticket)
        next_due = NEVER
        for holder, tickets in waiting.items():
            own = holder.held(spec.name)
            idle_since = [session.idle_since for session in own]
            if not own or None in idle_since:
                continue
            latest = max(since for since in idle_since if since is not None)
            others = spec.session_limit - len(own)
            wanted = sum(ticket.size for ticket in tickets)
            error = capacity.held(spec, self._taken[spec.name], len(own), wanted)
            for ticket in tickets:
                since = max(latest, ticket.arrived_at)
                due = since + self._settings.hold_and_wait_grace_s
                if ticket.size <= others or not ticket.waiting:
                    continue
                if due <= now:
                    self._refuse(ticket, error, cause="held and waited")
                else:
                    next_due = min(next_due, due)
        return next_due

    def _tell_places(self, now: float) -> None:
        """Tells who waits where it stands, if it was not told just now."""
        told_before = now - self._settings.queue_beat_s / 2
        for line in self._lines.values():
            position = 1
            for ticket in line:
                if ticket.told_at <= told_before:
                    self._tell(ticket, position)
                position += ticket.size

    def _tell(self, ticket: _Ticket, position: int) -> None:
        ticket.told_at = self._clock.time()
        place = QueuePlace(
            position=position,
            waited_s=ticket.told_at - ticket.arrived_at,
            limit_s=ticket.due - ticket.arrived_at,
            session_limit=ticket.spec.session_limit,
        )
        for wait in ticket.waits.values():
            if wait.tell is not None:
                wait.tell(place)
