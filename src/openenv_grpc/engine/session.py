"""One session: what is asked of an environment, one thing after the other, until its end."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

from openenv_grpc.engine import verdicts
from openenv_grpc.engine.clock import Clock
from openenv_grpc.engine.housing import Housing
from openenv_grpc.engine.instance import Outcome
from openenv_grpc.engine.ledger import Ledger
from openenv_grpc.engine.pending import Pending
from openenv_grpc.engine.registry import EngineSettings, RegisteredEnvironment
from openenv_grpc.engine.threads import SharedThread
from openenv_grpc.engine.worker import Worker
from openenv_grpc.errors import Effect, OpenEnvError, TooManyOperationsError
from openenv_grpc.sessions import (
    CancelEffect,
    Closed,
    Deliver,
    EnvironmentSpec,
    Kind,
    Opened,
    Operation,
    Reply,
    SessionInfo,
    SessionPort,
    SessionState,
)

logger = logging.getLogger(__name__)

OnLost = Callable[[SessionPort, OpenEnvError], None]


class Home(Protocol):
    """What a session needs of who keeps it."""

    @property
    def settings(self) -> EngineSettings:
        """How sessions are run."""
        ...

    @property
    def clock(self) -> Clock:
        """Tells the time and wakes up."""
        ...

    @property
    def draining(self) -> bool:
        """Whether no episode may be started."""
        ...

    def take_worker(self, session: Session) -> Worker:
        """Returns where the session's blocking calls run."""
        ...

    def free_worker(self, session: Session, worker: Worker) -> None:
        """Takes a worker back."""
        ...

    def watch_idle(self, session: Session) -> None:
        """Ends a session once it idles for too long."""
        ...

    def gone(self, session: Session, *, stuck_on: Worker | None) -> None:
        """Notes that a session has ended, though a call of it may still run on a worker."""
        ...


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
    ) -> None:
        self.id = str(uuid.uuid4())
        self.registered = registered
        self.shared_thread = shared_thread
        """The thread of its connection, for environments that share one."""
        self.idle_timeout_s: float | None = None
        self.transient = transient
        """Whether it lives for one request and is listed nowhere."""
        self.on_lost = on_lost
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._peer = peer
        self._home = home
        self._clock = home.clock
        self._ledger = Ledger()
        self._queue: deque[Pending] = deque()
        self._running: Pending | None = None
        self._in_flight = 0
        self._advancing = False
        self._housing = Housing(
            registered, self, session_id=self.id, redact_errors=home.settings.redact_errors
        )
        self._state = SessionState.OPENING
        self._end_error: OpenEnvError | None = None
        self._cause = ""
        self._closing: Pending | None = None
        self._rest: asyncio.Future[None] | None = None
        self._cleaning: asyncio.Task[None] | None = None
        self._created_at = time.time()
        self._opened_at = self.idle_since = self._clock.time()

    # What doors see

    @property
    def spec(self) -> EnvironmentSpec:
        """What it is an instance of."""
        return self.registered.spec

    @property
    def last_request_id(self) -> int:
        """The highest number used in its sequence."""
        return self._ledger.last_id

    @property
    def is_idle(self) -> bool:
        """Whether nothing is asked of it."""
        return self._running is None and not self._queue and not self.is_over

    @property
    def is_over(self) -> bool:
        """Whether it ends, or has ended."""
        return self._state is SessionState.CLOSING or self._state is SessionState.CLOSED

    def open(self, operation: Operation, deliver: Deliver) -> None:
        """Builds the environment, as the first operation."""
        self._enqueue(operation, deliver, verdicts.on_arrival(operation))

    def submit(self, operation: Operation, deliver: Deliver) -> None:
        """Has an operation done, after those before it. Never blocks, never raises."""
        try:
            if self._ledger.is_repeat(operation):
                answered = self._ledger.repeat(operation, deliver)
                if answered is not None:
                    deliver(answered)
                return
            self._check_room()
        except OpenEnvError as error:
            deliver(self._error_reply(operation, error))
            return
        refused = verdicts.on_arrival(operation) or verdicts.forbidden(
            operation, self.spec, draining=self._home.draining
        )
        self._enqueue(operation, deliver, refused)

    def cancel(self, request_id: int) -> CancelEffect:
        """Cancels a numbered operation that has no reply yet."""
        for pending in self._unanswered():
            if pending.operation is not None and pending.operation.request_id == request_id:
                return self._cancel(pending)
        return CancelEffect.NOT_FOUND

    def cancel_operation(self, operation: Operation) -> CancelEffect:
        """Cancels an operation that has no reply yet, numbered or not."""
        for pending in self._unanswered():
            if pending.operation is operation:
                return self._cancel(pending)
        deliver = self._ledger.withdraw(operation)
        if deliver is None:
            return CancelEffect.NOT_FOUND
        deliver(self._error_reply(operation, verdicts.cancelled(Effect.UNKNOWN)))
        return CancelEffect.DROPPED

    def acknowledge(self, request_id: int) -> None:
        """Forgets the replies up to a number."""
        self._ledger.acknowledge(request_id)

    def info(self) -> SessionInfo:
        """Describes it as it is now."""
        now = self._clock.time()
        ready = self._state is SessionState.READY
        return SessionInfo(
            session_id=self.id,
            environment=self.spec.name,
            environment_type=self._housing.environment_type,
            state=SessionState.RUNNING if ready and self._running is not None else self._state,
            age_s=now - self._opened_at,
            idle_s=now - self.idle_since if self.is_idle else None,
            created_at=self._created_at,
            last_activity_at=time.time() - (now - self.idle_since),
            step_count=self._housing.books.total_steps,
            peer=self._peer,
        )

    def watch_idle(self, limit_s: float) -> None:
        """Has the session end once it idles for too long."""
        self.idle_timeout_s = limit_s
        self._home.watch_idle(self)

    # Workers, for its housing

    def take(self) -> Worker:
        """Returns where its blocking calls run."""
        return self._home.take_worker(self)

    def free(self, worker: Worker) -> None:
        """Takes the worker back."""
        self._home.free_worker(self, worker)

    # Order

    def _check_room(self) -> None:
        if self._end_error is not None:
            raise verdicts.copied(self._end_error, Effect.NONE)
        limit = self._home.settings.max_operations_per_session
        if self._in_flight >= limit:
            raise TooManyOperationsError(
                f"{limit} operations of this session are in flight; wait for an outcome first"
            )

    def _enqueue(
        self, operation: Operation, deliver: Deliver, refused: OpenEnvError | None
    ) -> None:
        self._ledger.begin(operation)
        self._in_flight += 1
        pending = Pending(operation, deliver, refused)
        if operation.timeout_s is not None and refused is None:
            pending.deadline = self._clock.call_later(operation.timeout_s, self._expire, pending)
        self._queue.append(pending)
        if self._running is None:
            self._advance()

    def _advance(self) -> None:
        """Starts what is next. An inline worker answers from within, which must not nest."""
        if self._advancing:
            return
        self._advancing = True
        try:
            while self._queue and self._running is None and not self.is_over:
                if self._housing.instance is None:
                    self._build()
                else:
                    self._start(self._queue.popleft())
        finally:
            self._advancing = False

    def _start(self, pending: Pending) -> None:
        operation = pending.operation
        assert operation is not None
        if pending.refused is not None:
            self._fail(pending, pending.refused)
        elif operation.kind is Kind.CLOSE:
            self._closing = pending
            self.end(verdicts.closed(), cause="closed by its client")
        else:
            self._running = pending
            pending.task = self._housing.start(operation)
            if pending.task is None:
                self._housing.run(operation, partial(self._performed, pending))
            else:
                pending.task.add_done_callback(partial(self._task_done, pending))

    def _performed(
        self, pending: Pending, operation: Operation, outcome: Outcome | BaseException
    ) -> None:
        pending.stop_timers()
        try:
            if not isinstance(outcome, tuple):
                self._broke(pending, outcome)
            elif not pending.answered:
                self._answer(pending, *outcome)
        finally:
            self._came_to_rest()

    def _task_done(self, pending: Pending, task: asyncio.Task[Outcome | BaseException]) -> None:
        operation = pending.operation
        assert operation is not None
        if not task.cancelled():
            self._performed(pending, operation, task.result())
            return
        error = verdicts.cancelled(Effect.UNKNOWN)
        reply = self._error_reply(operation, error)
        self._performed(pending, operation, (reply.content, error))

    def _came_to_rest(self) -> None:
        self._running = None
        self.idle_since = self._clock.time()
        if self._rest is not None and not self._rest.done():
            self._rest.set_result(None)
        self._advance()

    def _broke(self, pending: Pending, error: BaseException) -> None:
        """Handles what no operation should end with."""
        logger.error("operation broke session_id=%s", self.id, exc_info=error)
        if not isinstance(error, Exception):
            self.end(verdicts.crashed(error), cause="crashed")
        elif not pending.answered:
            self._fail(pending, verdicts.defect(error))

    # Answers

    def _answer(self, pending: Pending, content: bytes, error: OpenEnvError | None) -> None:
        pending.answered = True
        operation, deliver = pending.operation, pending.deliver
        if operation is None or deliver is None:  # an opening that nobody asked for
            return
        self._in_flight -= 1
        pending.stop_deadline()
        reply = Reply(operation, content, error)
        for repeat, deliver_repeat in self._ledger.finish(reply):
            deliver_repeat(Reply(repeat, content, error))
        deliver(reply)

    def _fail(self, pending: Pending, error: OpenEnvError) -> None:
        operation = pending.operation
        if operation is None:
            pending.answered = True
        else:
            self._answer(pending, operation.codec.write_error(operation, error, self.spec), error)

    def _error_reply(self, operation: Operation, error: OpenEnvError) -> Reply:
        return Reply(operation, operation.codec.write_error(operation, error, self.spec), error)

    # Deadlines and cancellation

    def _unanswered(self) -> list[Pending]:
        known = (self._running, self._closing, *self._queue)
        return [pending for pending in known if pending is not None and not pending.answered]

    def _expire(self, pending: Pending) -> None:
        if pending.answered or pending.operation is None:
            return
        if pending in self._queue:
            self._queue.remove(pending)
            self._fail(pending, verdicts.expired(pending.operation, Effect.NONE))
        else:
            self._stop(pending)
            self._fail(pending, verdicts.expired(pending.operation, Effect.UNKNOWN))

    def _cancel(self, pending: Pending) -> CancelEffect:
        if pending in self._queue:
            self._queue.remove(pending)
            self._fail(pending, verdicts.cancelled(Effect.NONE))
            return CancelEffect.DROPPED
        if pending is self._closing:
            return CancelEffect.RUNS_ON
        if pending.task is not None:
            self._stop(pending)
            return CancelEffect.STOPPED
        self._fail(pending, verdicts.cancelled(Effect.UNKNOWN))
        return CancelEffect.RUNS_ON

    def _stop(self, pending: Pending) -> None:
        """Stops what runs, if it can be stopped, and gives it a last respite."""
        if pending is self._running:
            if pending.task is not None:
                pending.task.cancel()
            respite_s = self._home.settings.stuck_grace_s
            pending.respite = self._clock.call_later(respite_s, self._give_up, pending)

    def _give_up(self, pending: Pending) -> None:
        if self._running is pending:
            self._begin_end(verdicts.stuck(), cause="stuck", limit_s=0)

    # The beginning

    def _build(self) -> None:
        first = self._queue[0].operation
        asked = first is not None and first.kind is Kind.OPEN
        self._running = pending = self._queue.popleft() if asked else Pending(None, None)
        self._housing.build(partial(self._settled, pending))

    def _settled(self, pending: Pending, error: BaseException | None) -> None:
        pending.stop_timers()
        if self.is_over:
            self._came_to_rest()
            return
        try:
            if error is None:
                self._opened(pending)
            else:
                self._not_opened(pending, error)
        finally:
            self._came_to_rest()

    def _opened(self, pending: Pending) -> None:
        self._state = SessionState.READY
        self._log("session opened session_id=%s environment=%s peer=%s", self.spec.name, self._peer)
        operation = pending.operation
        if operation is not None and not pending.answered:
            opened = Opened(session_id=self.id, environment=self.spec.name)
            self._answer(pending, operation.codec.write(operation, opened, self.spec), None)

    def _not_opened(self, pending: Pending, error: BaseException) -> None:
        name = self.spec.factory_name
        logger.error(
            "environment not built session_id=%s factory=%s", self.id, name, exc_info=error
        )
        self._running = None
        failure = verdicts.not_built(name, error)
        if not pending.answered:
            self._fail(pending, failure)
        told = pending.operation is not None
        self._begin_end(failure, cause="construction failed", told=told)

    # The end

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
        self._end_error = lost = verdicts.copied(error, error.effect, session_lost=True)
        self._housing.retire()
        running, waiting, self._queue = self._running, self._queue, deque()
        if running is not None:
            if running.task is not None:
                running.task.cancel()
            if not running.answered:
                told = told or running.operation is not None
                self._fail(running, verdicts.copied(lost, Effect.UNKNOWN))
        for pending in waiting:
            told = True
            self._fail(pending, verdicts.copied(lost, Effect.NONE))
        if self.on_lost is not None and not told:
            self.on_lost(self, lost)
        if running is None and not self._housing.exists:
            self._finish(None)
        else:
            limit_s = self._home.settings.close_timeout_s if limit_s is None else limit_s
            self._cleaning = asyncio.get_running_loop().create_task(self._clean_up(limit_s))

    async def _clean_up(self, limit_s: float) -> None:
        stuck_on = None
        running = self._running
        if not await self._comes_to_rest(limit_s) and running is not None and running.task is None:
            stuck_on = self._housing.abandon()
        else:
            try:
                async with asyncio.timeout(self._home.settings.close_timeout_s):
                    await self._housing.close()
            except TimeoutError:
                stuck_on = self._housing.abandon()
        if stuck_on is not None:
            logger.warning("environment does not end session_id=%s", self.id)
        self._finish(stuck_on)

    async def _comes_to_rest(self, limit_s: float) -> bool:
        """Waits for what runs; tells whether it has ended in time."""
        if self._running is None:
            return True
        self._rest = asyncio.get_running_loop().create_future()
        await asyncio.wait({self._rest}, timeout=limit_s)
        return self._rest.done()

    def _finish(self, stuck_on: Worker | None) -> None:
        self._state = SessionState.CLOSED
        steps = self._housing.books.total_steps
        self._home.gone(self, stuck_on=stuck_on)
        self._log("session closed session_id=%s steps=%d cause=%s", steps, self._cause)
        self.closed.set_result(None)
        closing = self._closing
        if closing is not None and closing.operation is not None and not closing.answered:
            operation = closing.operation
            content = operation.codec.write(operation, Closed(step_count=steps), self.spec)
            self._answer(closing, content, None)

    def _log(self, event: str, *facts: object) -> None:
        logger.log(logging.DEBUG if self.transient else logging.INFO, event, self.id, *facts)
