"""One session: an environment and what is asked of it, from its opening to its end."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial

from openenv_grpc.crew import new_id
from openenv_grpc.engine import verdicts
from openenv_grpc.engine.home import Home
from openenv_grpc.engine.pending import Pending
from openenv_grpc.engine.performing import Outcome, pass_on
from openenv_grpc.engine.registry import RegisteredEnvironment
from openenv_grpc.engine.relay import Done
from openenv_grpc.engine.saving import restoring, saving
from openenv_grpc.engine.snapshots import Snapshot
from openenv_grpc.engine.threads import SharedThread
from openenv_grpc.engine.turns import Turns
from openenv_grpc.engine.witnessing import Witness
from openenv_grpc.engine.worker import Worker
from openenv_grpc.environment_spec import EnvironmentSpec
from openenv_grpc.errors import OpenEnvError
from openenv_grpc.events import Fact, log_event
from openenv_grpc.operations import Closed, Deliver, Kind, Opened, Operation
from openenv_grpc.sessions import (
    CancelEffect,
    Follower,
    SessionInfo,
    SessionPort,
    SessionState,
    UnderWay,
    Watch,
)

logger = logging.getLogger(__name__)

OnLost = Callable[[SessionPort, OpenEnvError], None]
_SPECIAL = frozenset({Kind.OPEN, Kind.CLOSE, Kind.SNAPSHOT})
"""Operations that are more than a use of the environment."""


class Session:
    """One instance of an environment. Implements `SessionPort`, on the event loop."""

    def __init__(
        self,
        registered: RegisteredEnvironment,
        home: Home,
        *,
        peer: str,
        shared_thread: SharedThread | None = None,
        on_lost: OnLost | None = None,
        transient: bool = False,
        queued: bool = False,
        snapshot: Snapshot | None = None,
    ) -> None:
        self.id = new_id(home.settings.crew)
        self.registered = registered
        self.shared_thread = shared_thread
        """The thread of its connection, for environments that share one."""
        self.idle_timeout_s: float | None = None
        self.transient = transient
        """Whether it lives for one request and is listed nowhere."""
        self.queued = queued
        """Whether it has no slot: until `admit`, or for ever."""
        self.on_lost = on_lost
        self.watch: Watch | None = None
        """Who is told of its tool calls, if anybody is."""
        self.peer = peer
        """Who is attached; empty if nobody is."""
        self.resume_window_s: float | None = None
        """How long it outlives its connection, if it does."""
        self.is_detached = False
        """Whether it waits to be attached to."""
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._home = home
        self._clock = home.clock
        self._counted = home.metrics.environments[registered.spec.name]
        self._turns = Turns(
            self,
            registered.spec,
            home.settings,
            home.clock,
            self._counted,
            home.attention,
            home.spans_of(self),
            held=queued,
        )
        # Without a call in between:
        self.submit = self._turns.submit
        self.acknowledge = self._turns.ledger.acknowledge
        self._housing = home.house(self)
        self._state = SessionState.QUEUED if queued else SessionState.OPENING
        self._snapshot = snapshot  # until the environment goes on from it
        self._closing: Pending | None = None
        self._cause = ""
        self._cleaning: asyncio.Task[None] | None = None
        self._created_at = time.time()
        self._opened_at = self._clock.time()

    # What doors see

    @property
    def spec(self) -> EnvironmentSpec:
        """What it is an instance of."""
        return self.registered.spec

    @property
    def last_request_id(self) -> int:
        """The highest number used in its sequence."""
        return self._turns.ledger.last_id

    @property
    def idle_since(self) -> float | None:
        """Since when nothing is asked of it, by the clock; `None` while something is."""
        return self._turns.idle_since if self._turns.is_idle and not self.is_over else None

    @property
    def is_over(self) -> bool:
        """Whether it ends, or has ended."""
        return self._turns.ended_by is not None

    @property
    def is_under_way(self) -> bool:
        """Whether anything is asked of it, or it is amid an episode."""
        return not self.is_over and (not self._turns.is_idle or self._housing.books.under_way)

    def open(self, operation: Operation, deliver: Deliver) -> None:
        """Builds the environment, as the first operation."""
        self._turns.begun = True
        self._turns.add(operation, deliver, verdicts.on_arrival(operation))

    def judge(self, operation: Operation) -> tuple[OpenEnvError | None, Witness | None]:
        """Tells why an operation that has come in will not be done, if so, and who tells of it."""
        refused = verdicts.on_arrival(operation) or verdicts.forbidden(
            operation, self.spec, draining=self._home.draining
        )
        if self.watch is None or operation.kind is not Kind.CALL_TOOL:
            return refused, None
        return refused, Witness(operation, self.watch.codec, self._tell)

    def _tell(self, event: bytes) -> None:
        if self.watch is not None:  # whoever watches by now
            self.watch.tell(event)

    def under_way(self) -> list[UnderWay]:
        """Lists its numbered operations, oldest first; none while it waits for a slot."""
        if self.queued:
            return []
        closing = self._closing  # which its turn has come to already
        if closing is None or closing.answered or not closing.is_numbered:
            return self._turns.under_way()
        return [closing.under_way(self._clock.time()), *self._turns.under_way()]

    def cancel(self, request_id: int) -> CancelEffect:
        """Cancels a numbered operation that has no reply yet."""
        return self._cancel(lambda operation: operation.request_id == request_id)

    def cancel_operation(self, operation: Operation) -> CancelEffect:
        """Cancels an operation that has no reply yet, numbered or not."""
        effect = self._cancel(lambda other: other is operation)
        return self._turns.withdraw(operation) if effect is CancelEffect.NOT_FOUND else effect

    def follow(self, follower: Follower) -> Callable[[], None]:
        """Tells a follower of what is asked from now on; returns what ends that."""
        return self._turns.follow(follower)

    def info(self) -> SessionInfo:
        """Describes it as it is now."""
        now, idle_since = self._clock.time(), self.idle_since
        state = self._state
        if state is SessionState.READY and self._turns.running is not None:
            state = SessionState.RUNNING
        elif state is SessionState.READY and self.is_detached:
            state = SessionState.DETACHED
        return SessionInfo(
            session_id=self.id,
            environment=self.spec.name,
            environment_type=self._housing.environment_type,
            state=state,
            age_s=now - self._opened_at,
            idle_s=None if idle_since is None else now - idle_since,
            created_at=self._created_at,
            last_activity_at=time.time() - (now - self._turns.idle_since),
            step_count=self._housing.books.total_steps,
            peer=self.peer,
            under_way=self.is_under_way,
        )

    def _cancel(self, matches: Callable[[Operation], bool]) -> CancelEffect:
        closing = None if self._closing is None else self._closing.operation
        if closing is not None and self._state is SessionState.CLOSING and matches(closing):
            return CancelEffect.RUNS_ON
        return self._turns.cancel(matches)

    # What its keeper and its housing see

    @property
    def record_bytes(self) -> int:
        """Size of the answers that it keeps."""
        return self._turns.ledger.kept_bytes

    @property
    def in_flight(self) -> int:
        """Operations that have no answer yet."""
        return self._turns.in_flight

    def attach(self, on_lost: OnLost, *, peer: str, watch: Watch | None = None) -> None:
        """Has a connection told if it is lost. Idle time starts anew."""
        self.on_lost, self.peer, self.is_detached = on_lost, peer, False
        self.watch = watch
        self._turns.idle_since = self._clock.time()
        self._home.watch_idle(self)

    def admit(self) -> None:
        """Notes that it has a slot, and does what was asked of it so far."""
        self.queued = False
        self._state = SessionState.OPENING
        self._counted.opened += 1
        self._turns.release()

    def detach(self) -> None:
        """Notes that nobody holds it. What was asked of it is done all the same."""
        self.on_lost, self.peer, self.is_detached = None, "", True
        self.watch = None

    def watch_idle(self, limit_s: float) -> None:
        """Has the session end once it idles for too long."""
        self.idle_timeout_s = limit_s
        self._home.watch_idle(self)

    def take(self) -> Worker:
        """Returns where its blocking calls run."""
        return self._home.take_worker(self)

    def free(self, worker: Worker) -> None:
        """Takes the worker back."""
        self._home.free_worker(self, worker)

    def crashed(self, error: OpenEnvError) -> None:
        """Notes that its environment is gone."""
        reason, detail = error.reason.name, error.message
        self._log(logging.ERROR, "environment crashed", reason=reason, detail=detail)
        self.end(error, cause="crashed")

    # Its operations, as their turns come

    def start(self, pending: Pending) -> None:
        """Starts an operation."""
        operation = pending.operation
        if pending.refused is not None:
            self._turns.fail(pending, pending.refused)
            if self._state is SessionState.OPENING:  # not even the opening was done
                self.end(verdicts.closed(), cause="not opened")
        elif operation is None:
            self._build(pending)
        elif operation.kind in _SPECIAL:
            self._start_special(pending, operation.kind)
        else:
            self._turns.running = pending
            self._use(pending, operation, self._performed)

    def _start_special(self, pending: Pending, kind: Kind) -> None:
        match kind:
            case Kind.OPEN:
                self._build(pending)
            case Kind.CLOSE:
                self._closing = pending
                self.end(verdicts.closed(), cause="closed by its client")
            case _:
                self._turns.running = pending
                self._use(pending, saving(), self._saved)

    def _build(self, pending: Pending) -> None:
        self._turns.running = pending
        self._housing.build(partial(self._settled, pending))

    def _use(self, pending: Pending, operation: Operation, done: Done) -> None:
        """Has an operation use the environment, for what runs; `done` goes on."""
        task = self._housing.run(operation, done)
        if task is not None:
            pending.task = task
            task.add_done_callback(partial(pass_on, operation, done, self.spec))

    def kill(self, pending: Pending) -> bool:
        """Ends what runs, and the session with it, where that can be done."""
        if not self._housing.can_be_killed:
            return False
        self._begin_end(verdicts.killed(), cause="cancelled", limit_s=0)
        return True

    def give_up(self, pending: Pending) -> None:
        """Ends the session since what runs does not end."""
        if self._turns.running is pending:
            self._begin_end(verdicts.stuck(), cause="stuck", limit_s=0)

    def forgo(self) -> None:
        """Ends the session: its opening is wanted no more, as whoever waits has been told."""
        self._begin_end(verdicts.closed(), cause="not opened", told=True)

    def _performed(self, _: Operation, outcome: Outcome | BaseException) -> None:
        turns = self._turns
        pending = turns.running
        assert pending is not None  # until `rest`
        if pending.deadline is not None or pending.respite is not None:
            pending.stop_timers()
        try:
            if not isinstance(outcome, tuple):
                self._broke(pending, outcome)
            elif not pending.answered:
                content, error = outcome
                turns.answer(pending, content, error)
        finally:
            turns.rest()

    def _saved(self, saving: Operation, outcome: Outcome | BaseException) -> None:
        pending = self._turns.running
        if pending is not None and not pending.answered and isinstance(outcome, tuple):
            operation = pending.operation
            assert operation is not None  # a snapshot that somebody asked for
            outcome = self._home.snapshots.answer(operation, outcome, self.spec)
        self._performed(saving, outcome)

    def _broke(self, pending: Pending, error: BaseException) -> None:
        """Handles what no operation should end with."""
        asked = None if pending.operation is None else pending.operation.kind.value
        self._log(logging.ERROR, "operation broke", error, operation=asked)
        if not isinstance(error, Exception):
            self.end(verdicts.crashed(error), cause="crashed")
        elif not pending.answered:
            self._turns.fail(pending, verdicts.defect(error))

    # Its beginning

    def _settled(self, pending: Pending, error: BaseException | None) -> None:
        if error is None and self._snapshot is not None and not self.is_over:
            restore = restoring(self._snapshot.content)
            self._use(pending, restore, partial(self._restored, pending))
            return
        if error is None:
            self._stands(pending, None)
            return
        redact = self._home.settings.redact_errors
        self._stands(pending, verdicts.not_built(self.spec.factory_name, error, redact=redact))

    def _restored(self, pending: Pending, _: Operation, outcome: Outcome | BaseException) -> None:
        self._snapshot = None
        error = outcome[1] if isinstance(outcome, tuple) else outcome
        self._stands(pending, None if error is None else verdicts.not_restored(error))

    def _stands(self, pending: Pending, failure: OpenEnvError | None) -> None:
        """Has the session begin, or end with a failure."""
        pending.stop_timers()
        try:
            if self.is_over:
                return
            if failure is None:
                self._opened(pending)
            else:
                self._not_opened(pending, failure)
        finally:
            self._turns.rest()

    def _opened(self, pending: Pending) -> None:
        self._state = SessionState.READY
        self._log(self._level, "session opened", peer=self.peer or None)
        operation = pending.operation
        if operation is not None and not pending.answered:
            opened = Opened(
                session_id=self.id,
                environment=self.spec.name,
                resume_window_s=self.resume_window_s,
                crew=self._home.settings.crew,
            )
            content = operation.codec.write(operation, opened, self.spec)
            self._turns.answer(pending, content, None)

    def _not_opened(self, pending: Pending, failure: OpenEnvError) -> None:
        factory = self.spec.factory_name
        self._log(logging.ERROR, "environment not built", failure.__cause__, factory=factory)
        told = pending.operation is not None and not pending.answered
        if not pending.answered:
            self._turns.fail(pending, failure)
        self._turns.running = None
        self._begin_end(failure, cause="construction failed", told=told)

    # Its end

    def end(self, error: OpenEnvError, *, cause: str) -> None:
        """Ends the session at once; `error` is what everybody who waits is told."""
        self._begin_end(error, cause=cause, told=self._closing is not None)

    def _begin_end(
        self,
        error: OpenEnvError,
        *,
        cause: str,
        told: bool = False,
        limit_s: float | None = None,
    ) -> None:
        if self.is_over:
            return
        self._state = SessionState.CLOSING
        self._cause = cause
        self._housing.retire()
        lost = verdicts.copied(error, error.effect, session_lost=True)
        running = self._turns.running
        if running is not None and running.task is not None:
            running.task.cancel()
        told = self._turns.end(lost) or told
        if self.on_lost is not None and not told:
            self.on_lost(self, lost)
        if running is None and not self._housing.needs_closing:
            self._housing.vacate()
            self._finish(None)
        else:
            limit_s = self.registered.close_timeout_s if limit_s is None else limit_s
            self._cleaning = asyncio.get_running_loop().create_task(self._clean_up(limit_s))

    async def _clean_up(self, limit_s: float) -> None:
        running = self._turns.running
        rests = await self._turns.comes_to_rest(limit_s)
        if rests or (running is not None and running.task is not None):
            try:
                async with asyncio.timeout(self.registered.close_timeout_s):
                    await self._housing.close()
                stuck_on = None
            except TimeoutError:
                stuck_on = self._housing.abandon()
        else:
            stuck_on = self._housing.abandon()
        if stuck_on is not None:
            self._log(logging.WARNING, "environment does not end")
        self._finish(stuck_on)

    def _finish(self, stuck_on: Worker | None) -> None:
        self._state = SessionState.CLOSED
        if stuck_on is None:
            self._housing.forget()
        steps = self._housing.books.total_steps
        if not (self.transient or self.queued):
            self._counted.ended[self._cause] += 1
        self._home.gone(self, stuck_on=stuck_on)
        peer, cause = self.peer or None, self._cause
        self._log(self._level, "session closed", peer=peer, steps=steps, cause=cause)
        self.closed.set_result(None)
        closing, self._closing = self._closing, None
        if closing is not None and closing.operation is not None and not closing.answered:
            operation = closing.operation
            content = operation.codec.write(operation, Closed(step_count=steps), self.spec)
            self._turns.answer(closing, content, None)

    @property
    def _level(self) -> int:
        return logging.DEBUG if self.transient else logging.INFO

    def _log(
        self, level: int, event: str, error: BaseException | None = None, **facts: Fact
    ) -> None:
        told: dict[str, Fact] = {"session_id": self.id, "environment": self.spec.name, **facts}
        log_event(logger, level, event, told, error=error)
