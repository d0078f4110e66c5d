"""Where a session's environment lives: it is built, used and closed on one worker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from openenv_grpc.engine import adapt
from openenv_grpc.engine.books import Books
from openenv_grpc.engine.held import HeldContext
from openenv_grpc.engine.inline import inline_worker
from openenv_grpc.engine.instance import Instance
from openenv_grpc.engine.performing import Outcome, Performer
from openenv_grpc.engine.registry import RegisteredEnvironment
from openenv_grpc.engine.relay import Done
from openenv_grpc.engine.traced import make_performer
from openenv_grpc.engine.worker import Worker
from openenv_grpc.events import in_session, log_event
from openenv_grpc.operations import Operation
from openenv_grpc.tracing import Tracing

logger = logging.getLogger(__name__)

Settled = Callable[[BaseException | None], None]
"""Called once the environment stands, or with what kept it from standing."""


class WorkerSource(Protocol):
    """Hands out workers."""

    def take(self) -> Worker:
        """Returns the worker of one session."""
        ...

    def free(self, worker: Worker) -> None:
        """Takes it back: the session gives it no further calls."""
        ...


class House(Protocol):
    """Where the environment of one session is: in this process, or in one of its own."""

    @property
    def books(self) -> Books:
        """What is kept of its episodes."""
        ...

    @property
    def environment_type(self) -> str:
        """Name of the environment's class; of its factory, before it stands."""
        ...

    @property
    def needs_closing(self) -> bool:
        """Whether anything has to be done before the environment can be dropped."""
        ...

    @property
    def can_be_killed(self) -> bool:
        """Whether `abandon` ends a call that runs."""
        ...

    def build(self, settled: Settled) -> None:
        """Builds the environment."""
        ...

    def run(self, operation: Operation, done: Done) -> asyncio.Task[Outcome | BaseException] | None:
        """Does an operation: returns the task of one that is awaited.

        `done` gets one that blocks, with the outcome, on the event loop.
        """
        ...

    def retire(self) -> None:
        """Lets no further operation use the environment."""
        ...

    async def close(self) -> None:
        """Closes the environment. Cancelling this gives up waiting, not closing."""
        ...

    def abandon(self) -> Worker | None:
        """Gives up an environment that does not return; returns the worker that is stuck, if so."""
        ...

    def vacate(self) -> None:
        """Gives back what the environment took."""
        ...

    def forget(self) -> None:
        """Drops the environment, which nothing uses any more; its books are kept."""
        ...


class Housing:
    """One environment, from before its constructor to after its close. Implements `House`."""

    can_be_killed = False

    def __init__(
        self,
        registered: RegisteredEnvironment,
        workers: WorkerSource,
        *,
        session_id: str,
        redact_errors: bool,
        tracing: Tracing | None = None,
    ) -> None:
        self.books = Books()
        self._performer: Performer | None = None  # while operations may use the environment
        self._registered = registered
        self._workers = workers
        self._session_id = session_id
        self._redact_errors = redact_errors
        self._tracing = tracing
        self._worker: Worker | None = None
        self._made: Performer | None = None  # from the constructor's end to the start of `close`
        self._tools: HeldContext | None = None
        self._settled: Settled | None = None
        self._retired = False

    @property
    def environment_type(self) -> str:
        """Name of the environment's class; of its factory, before it stands."""
        if self._performer is None:
            return self._registered.spec.factory_name
        return self._performer.instance.shape.cls.__name__

    @property
    def needs_closing(self) -> bool:
        """Whether anything has to be done before the environment can be dropped."""
        closes = self._made is not None and self._made.instance.shape.close is not None
        return closes or self._tools is not None

    # The beginning

    def build(self, settled: Settled) -> None:
        """Builds the environment, and connects to its tools where it has such a connection."""
        self._settled = settled
        self._taken().run(self._construct, None, self._constructed)

    def _construct(self, _: None) -> Performer:
        with in_session(self._session_id):
            instance = Instance(self._registered.factory(), self._registered, self.books)
        self._made = make_performer(
            instance,
            self._tracing,
            session_id=self._session_id,
            redact_errors=self._redact_errors,
        )
        return self._made

    def _constructed(self, _: None, outcome: Performer | BaseException) -> None:
        if isinstance(outcome, BaseException):
            self._settle(outcome)
            return
        try:
            context = adapt.tool_session(outcome.instance.environment)
        except BaseException as error:  # SystemExit would end the event loop
            self._settle(error)
            return
        if context is None or self._retired:
            self._settle(None)
        else:
            self._tools = HeldContext(context, self._settle)

    def _settle(self, error: BaseException | None) -> None:
        if error is None and not self._retired:
            self._performer = self._made
            if self._made is not None and self._made.instance.shape.on_loop:
                self.vacate()  # no thread for each environment that hardly needs one
        settled, self._settled = self._settled, None  # which holds on to the opening operation
        if settled is not None:
            settled(error)

    # Its use

    def run(self, operation: Operation, done: Done) -> asyncio.Task[Outcome | BaseException] | None:
        """See `House`."""
        performer = self._performer
        assert performer is not None
        if operation.kind in performer.instance.not_blocking:
            if performer.instance.awaits(operation):
                return asyncio.get_running_loop().create_task(awaited(performer, operation))
            if performer.instance.is_at_hand(operation.kind):
                worker = inline_worker(self._registered.spec.name)
                worker.run(performer.perform, operation, done)
                return None
        (self._worker or self._taken()).run(performer.perform, operation, done)
        return None

    # The end

    def retire(self) -> None:
        """Lets no further operation use the environment."""
        self._performer = None
        self._retired = True
        if self._tools is not None:
            self._tools.stop_entering()

    async def close(self) -> None:
        """Closes the environment. Cancelling this gives up waiting for what does not end."""
        if self._tools is not None:
            await self._tools.leave()
        made = self._made
        close = None if made is None else made.instance.shape.close
        if made is not None and close is not None:
            if close.asynchronous:
                self._made = None
                await _apart(made.close_async())
            else:
                await self._on_worker(self._close_made)
        self.vacate()

    def abandon(self) -> Worker | None:
        """Has the environment closed whenever its worker returns, if it does; returns that."""
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.run(self._close_made, None, _ignore)
        return worker

    def _close_made(self, _: None) -> None:
        made, self._made = self._made, None
        if made is not None:
            made.close()

    async def _on_worker(self, call: Callable[[None], None]) -> None:
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(_: None, outcome: BaseException | None) -> None:
            if outcome is not None:
                log_event(
                    logger,
                    logging.ERROR,
                    "close failed",
                    error=outcome,
                    session_id=self._session_id,
                    environment=self._registered.spec.name,
                )
            if not ended.done():
                ended.set_result(None)

        (self._worker or self._taken()).run(call, None, done)
        await ended

    def _taken(self) -> Worker:
        self._worker = worker = self._workers.take()
        return worker

    def forget(self) -> None:
        """Drops the environment, which nothing uses any more."""
        self._made = self._performer = None

    def vacate(self) -> None:
        """Gives the worker back, after what it was given so far."""
        if self._worker is not None:
            worker, self._worker = self._worker, None
            self._workers.free(worker)


async def awaited(performer: Performer, operation: Operation) -> Outcome | BaseException:
    """Does an operation that is awaited; returns even what ends a program."""
    try:
        return await performer.perform_async(operation)
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # else SystemExit would end the event loop
        return error


async def _apart(closing: Coroutine[Any, Any, None]) -> None:
    """Waits for an author's coroutine, which may cancel its own task, or ignore being cancelled."""
    task = asyncio.get_running_loop().create_task(closing)
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        task.cancel()
        raise


def _ignore(_: Any, outcome: Any) -> None:
    if isinstance(outcome, BaseException):
        log_event(logger, logging.ERROR, "close failed", error=outcome)
