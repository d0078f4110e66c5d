"""The operations of one session: one after the other, each answered once."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from openenv_grpc.engine import verdicts
from openenv_grpc.engine.attention import Attention
from openenv_grpc.engine.clock import Clock
from openenv_grpc.engine.followers import Followers
from openenv_grpc.engine.ledger import Ledger
from openenv_grpc.engine.pending import Pending
from openenv_grpc.engine.registry import EngineSettings
from openenv_grpc.engine.traced import OperationSpans
from openenv_grpc.engine.witnessing import Witness
from openenv_grpc.environment_spec import EnvironmentSpec
from openenv_grpc.errors import Effect, OpenEnvError, TooManyOperationsError
from openenv_grpc.metrics import EnvironmentMetrics
from openenv_grpc.operations import Deliver, Kind, Operation, Reply
from openenv_grpc.sessions import CancelEffect, Follower, UnderWay


class Performer(Protocol):
    """Does operations; calls `Turns.rest` once it is done with one."""

    def judge(self, operation: Operation) -> tuple[OpenEnvError | None, Witness | None]:
        """Tells why an operation that has come in will not be done, if so, and who tells of it.

        Asked of those alone that have a time limit, of kinds that are `doubtful`, and of calls of
        tools, which may be watched.
        """
        ...

    def start(self, pending: Pending) -> None:
        """Starts an operation: sets it as `running`, or answers it at once."""
        ...

    def kill(self, pending: Pending) -> bool:
        """Ends what runs, and the session with it; tells whether that can be done."""
        ...

    def give_up(self, pending: Pending) -> None:
        """Notes that what runs does not end although its time is over."""
        ...

    def forgo(self) -> None:
        """Ends the session: its opening is wanted no more."""
        ...


class Turns:
    """What has come in and is not over: in order, numbered, with deadlines."""

    def __init__(
        self,
        performer: Performer,
        spec: EnvironmentSpec,
        settings: EngineSettings,
        clock: Clock,
        counted: EnvironmentMetrics,
        attention: Attention,
        spans: OperationSpans | None = None,
        *,
        held: bool = False,
    ) -> None:
        self.ledger = Ledger(max_records=settings.max_records, max_bytes=settings.max_record_bytes)
        self.running: Pending | None = None
        self.ended_by: OpenEnvError | None = None
        """Why nothing is started any more."""
        self.idle_since = clock.time()
        self.begun = False
        """Whether anything was asked."""
        self._performer = performer
        self._judged = verdicts.doubtful(spec) | {Kind.CALL_TOOL}
        self._spec = spec
        self._max_in_flight = settings.max_operations_per_session
        self._stuck_grace_s = settings.stuck_grace_s
        self._clock = clock
        self._time = clock.time
        self._counted = counted
        self._attention = attention
        self._spans = spans
        self._queue: deque[Pending] = deque()
        self._followers: Followers | None = None  # since somebody followed
        self.in_flight = 0
        """Operations without an answer."""
        self._advancing = False
        self._held = held  # nothing is started yet
        self._rest: asyncio.Future[None] | None = None

    def under_way(self) -> list[UnderWay]:
        """Lists the numbered operations that have no answer yet, oldest first."""
        waiting = self._queue if self.running is None else (self.running, *self._queue)
        now = self._clock.time()
        return [each.under_way(now) for each in waiting if each.is_numbered and not each.answered]

    @property
    def is_idle(self) -> bool:
        """Whether nothing is asked."""
        return self.running is None and not self._queue

    def follow(self, follower: Follower) -> Callable[[], None]:
        """Tells a follower of what is added from now on; returns what ends that."""
        if self._followers is None:
            self._followers = Followers()
        leave = self._followers.add(follower)
        if self.ended_by is not None:
            self._followers.end()
        return leave

    # Coming in

    def submit(self, operation: Operation, deliver: Deliver) -> None:
        """Has an operation done, after those before it. Never blocks, never raises."""
        number = operation.request_id
        if (
            (number and number != self.ledger.last_id + 1)
            or self.ended_by is not None
            or self.in_flight >= self._max_in_flight
        ):
            self._turn_away(operation, deliver)
            return
        if not self.begun:
            self.begun = True
            if operation.kind is not Kind.CLOSE:
                self._queue.append(Pending(None, None))  # the environment is built before
        if operation.timeout_s is not None or operation.kind in self._judged:
            self.add(operation, deliver, *self._performer.judge(operation))
        else:
            self.add(operation, deliver)

    def _turn_away(self, operation: Operation, deliver: Deliver) -> None:
        """Answers an operation that is not to be done: a repeat, or one that comes amiss."""
        try:
            if not self.ledger.is_repeat(operation):
                raise self._no_room()
            answered = self.ledger.repeat(operation, deliver)
        except OpenEnvError as error:
            self._counted.errors[error.reason] += 1
            deliver(self._error_reply(operation, error))
            return
        if answered is not None:
            deliver(answered)
        else:
            self._hand_over(operation)

    def add(
        self,
        operation: Operation,
        deliver: Deliver,
        refused: OpenEnvError | None = None,
        witness: Witness | None = None,
    ) -> None:
        """Has an operation done; `refused` is why it will not be, told when its turn comes."""
        self.ledger.begin(operation)
        self.in_flight += 1
        self._attention.asked()
        pending = Pending(operation, deliver, self._time())
        if refused is not None:
            pending.refused = refused
        if witness is not None:
            pending.witness = witness
        if self._followers is not None:
            operation.changes = self._followers.teller(operation)
        if self._spans is not None:
            pending.span = self._spans.start(operation)
        if operation.timeout_s is not None and refused is None:
            pending.deadline = self._clock.call_later(operation.timeout_s, self._expire, pending)
        self._queue.append(pending)
        if self.running is None:
            self._advance()
        elif operation.kind is Kind.CLOSE:
            self._hang_up(self.running)

    def _hang_up(self, running: Pending) -> None:
        """Has a tool wait no longer for its caller's client, since the session is to end."""
        client = None if running.operation is None else running.operation.client
        if client is not None:
            client.hang_up("the session is being closed")

    def _hand_over(self, repeat: Operation) -> None:
        """Has those who ask again hear what is told from now on."""
        for pending in (self.running, *self._queue):
            operation = None if pending is None else pending.operation
            if operation is not None and operation.request_id == repeat.request_id:
                operation.listener = repeat.listener

    def _no_room(self) -> OpenEnvError:
        if self.ended_by is not None:
            return verdicts.copied(self.ended_by, Effect.NONE)
        return TooManyOperationsError(
            f"{self._max_in_flight} operations of this session are in flight; wait for an outcome "
            "first"
        )

    def release(self) -> None:
        """Starts what is next, from now on."""
        self._held = False
        self._advance()

    def _advance(self) -> None:
        """Starts what is next. An inline worker answers from within, which must not nest."""
        if self._advancing or self._held:
            return
        self._advancing = True
        try:
            while self._queue and self.running is None and self.ended_by is None:
                self._performer.start(self._queue.popleft())
        finally:
            self._advancing = False

    # Going out

    def rest(self) -> None:
        """Notes that what ran has ended, and goes on with what is next."""
        self.running = None
        self.idle_since = self._time()
        if self._rest is not None and not self._rest.done():
            self._rest.set_result(None)
        if self._queue:
            self._advance()

    async def comes_to_rest(self, limit_s: float) -> bool:
        """Waits for the end of what runs; tells whether it came in time."""
        if self.running is None:
            return True
        self._rest = asyncio.get_running_loop().create_future()
        await asyncio.wait({self._rest}, timeout=limit_s)
        return self._rest.done()

    def answer(self, pending: Pending, content: bytes, error: OpenEnvError | None) -> None:
        """Delivers an answer, to those who repeated the question as well."""
        pending.answered = True
        operation, deliver = pending.operation, pending.deliver
        if operation is None or deliver is None:  # an opening that nobody asked for
            return
        self.in_flight -= 1
        self._attention.answered()
        if pending.deadline is not None:
            pending.stop_deadline()
        self._counted.durations[operation.kind].add(self._time() - pending.arrived_at)
        if error is not None:
            self._counted.errors[error.reason] += 1
        if pending.span is not None:
            pending.span.end(error)
        if pending.witness is not None:
            content = pending.witness.answer(content)
        reply = Reply(operation, content, error)
        for repeat, deliver_repeat in self.ledger.finish(reply):
            deliver_repeat(Reply(repeat, content, error))
        deliver(reply)
        if pending.witness is not None:
            pending.witness.tell()
        if self._followers is not None and (error is None or error.effect is not Effect.NONE):
            self._followers.done(operation)

    def fail(self, pending: Pending, error: OpenEnvError) -> None:
        """Delivers an error."""
        operation = pending.operation
        if operation is None:
            pending.answered = True
        else:
            self.answer(pending, operation.codec.write_error(operation, error, self._spec), error)

    def end(self, error: OpenEnvError) -> bool:
        """Starts nothing more and answers everybody who waits; tells whether there was anybody."""
        self.ended_by = error
        told = False
        waiting, self._queue = self._queue, deque()
        if self.running is not None and not self.running.answered:
            told = self.running.operation is not None
            self.fail(self.running, verdicts.copied(error, Effect.UNKNOWN))
        for pending in waiting:
            told = told or pending.operation is not None
            self.fail(pending, verdicts.copied(error, Effect.NONE))
        if self._followers is not None:
            self._followers.end()
        return told

    def _error_reply(self, operation: Operation, error: OpenEnvError) -> Reply:
        return Reply(operation, operation.codec.write_error(operation, error, self._spec), error)

    # Deadlines and cancellation

    def cancel(self, matches: Callable[[Operation], bool]) -> CancelEffect:
        """Cancels the operation that matches, if it has no answer yet."""
        for pending in self._queue:
            if pending.operation is not None and matches(pending.operation):
                self._drop(pending, verdicts.cancelled(Effect.NONE))
                return CancelEffect.DROPPED
        running = self.running
        if running is None or running.answered:
            return CancelEffect.NOT_FOUND
        if running.operation is None or not matches(running.operation):
            return CancelEffect.NOT_FOUND
        if running.task is not None:
            self._stop(running)  # its end is its answer
            return CancelEffect.STOPPED
        if self._performer.kill(running):
            return CancelEffect.STOPPED
        self._abandon(running, verdicts.cancelled(Effect.UNKNOWN))
        return CancelEffect.RUNS_ON

    def withdraw(self, operation: Operation) -> CancelEffect:
        """Cancels a repeat, without touching what it repeats."""
        deliver = self.ledger.withdraw(operation)
        if deliver is None:
            return CancelEffect.NOT_FOUND
        deliver(self._error_reply(operation, verdicts.cancelled(Effect.UNKNOWN)))
        return CancelEffect.DROPPED

    def _expire(self, pending: Pending) -> None:
        operation = pending.operation
        if pending.answered or operation is None:
            return
        if pending in self._queue:
            self._drop(pending, verdicts.expired(operation, Effect.NONE))
        else:
            self._stop(pending)
            self.fail(pending, verdicts.expired(operation, Effect.UNKNOWN))

    def _drop(self, pending: Pending, error: OpenEnvError) -> None:
        self._queue.remove(pending)
        self._abandon(pending, error)

    def _abandon(self, pending: Pending, error: OpenEnvError) -> None:
        """Answers what nobody waits for any more. Without an opening there is no session."""
        opens = pending.operation is not None and pending.operation.kind is Kind.OPEN
        error.session_lost = error.session_lost or opens
        self.fail(pending, error)
        if opens:
            self._performer.forgo()

    def _stop(self, pending: Pending) -> None:
        """Stops what runs, if it can be stopped, and gives it a last respite."""
        if pending is self.running:
            if pending.task is not None:
                pending.task.cancel()
            pending.respite = self._clock.call_later(
                self._stuck_grace_s, self._performer.give_up, pending
            )
