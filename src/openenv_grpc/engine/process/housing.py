"""Where a session's environment is if it has a process to itself."""

from __future__ import annotations

import asyncio
import json
import logging
import pickle
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial

from openenv_grpc.engine import verdicts
from openenv_grpc.engine.books import Books
from openenv_grpc.engine.housing import Settled
from openenv_grpc.engine.performing import Outcome
from openenv_grpc.engine.process.child import Child
from openenv_grpc.engine.process.frames import (
    Frame,
    FrameKind,
    read_change,
    read_error,
    read_notice,
    read_questions,
    write_answer,
    write_operation,
)
from openenv_grpc.engine.process.pool import ProcessPool
from openenv_grpc.engine.relay import Done
from openenv_grpc.environment_spec import EnvironmentSpec
from openenv_grpc.errors import OpenEnvError
from openenv_grpc.operations import Kind, Operation
from openenv_grpc.tools import ToolQuestion
from openenv_grpc.types import JsonValue

logger = logging.getLogger(__name__)

Crashed = Callable[[OpenEnvError], None]
"""Called once if the process ends on its own."""


class ProcessHousing:
    """One environment in a process, from before its constructor to after its close.

    Implements `House`.
    """

    can_be_killed = True

    def __init__(
        self, pool: ProcessPool, spec: EnvironmentSpec, crashed: Crashed, *, session_id: str
    ) -> None:
        self.books = Books()
        self.environment_type = spec.factory_name
        """Name of the environment's class; of its factory, before it stands."""
        self._pool = pool
        self._crashed = crashed
        self._session_id = session_id
        self._child: Child | None = None  # from the constructor's start to the end of `close`
        self._settled: Settled | None = None  # until the environment stands, or does not
        self._awaited: frozenset[Kind] = frozenset()
        self._number = 0  # of the operation that runs, or ran last
        self._running: tuple[Operation, Done] | None = None
        self._closed: asyncio.Future[None] | None = None

    @property
    def needs_closing(self) -> bool:
        """Whether there is a process to be ended."""
        return self._child is not None

    # The beginning

    def build(self, settled: Settled) -> None:
        """Builds the environment."""
        self._settled = settled
        try:
            self._child = child = self._pool.take()
        except OSError as error:  # the system has no room for another
            asyncio.get_running_loop().call_soon(self._settle, error)
            return
        child.tenant = self
        content = pickle.dumps((self._session_id, self._pool.codec_modules))
        child.send(FrameKind.BUILD, content=content)

    def _settle(self, error: BaseException | None) -> None:
        settled, self._settled = self._settled, None
        if settled is not None:
            settled(error)

    # Its use

    def run(self, operation: Operation, done: Done) -> asyncio.Task[Outcome | BaseException] | None:
        """See `House`."""
        if operation.kind in self._awaited:
            return asyncio.get_running_loop().create_task(self._await(operation))
        self._ask_for(operation, done)
        return None

    def _ask_for(self, operation: Operation, done: Done) -> None:
        """Has an operation done; `done` gets it with the outcome, on the event loop."""
        child = self._child
        assert child is not None
        self._pool.note_codec(operation.codec)
        try:
            content = write_operation(operation)
        except Exception as error:  # whatever a door hands over is pickled
            asyncio.get_running_loop().call_soon(done, operation, error)
            return
        self._number += 1
        self._running = operation, done
        child.send(FrameKind.RUN, number=self._number, content=content)

    async def _await(self, operation: Operation) -> Outcome | BaseException:
        outcome: asyncio.Future[Outcome | BaseException]
        outcome = asyncio.get_running_loop().create_future()
        self._ask_for(operation, lambda _, result: outcome.set_result(result))
        while not outcome.done():
            try:
                await asyncio.wait({outcome})
            except asyncio.CancelledError:
                if self._child is not None:
                    self._child.send(FrameKind.CANCEL, number=self._number)
        result = outcome.result()
        if isinstance(result, asyncio.CancelledError):
            raise result
        return result

    # What its process says

    def receive(self, frame: Frame) -> None:
        """Takes a frame."""
        match frame.kind:
            case FrameKind.OUTCOME:
                self.books.total_steps, self.books.under_way = (
                    frame.number >> 1,
                    bool(frame.number & 1),
                )
                error = read_error(frame.facts) if frame.facts else None
                self._done((frame.content, error))
            case FrameKind.NOTICE:
                self._tell(frame)
            case FrameKind.ASKED:
                self._ask(frame)
            case FrameKind.CHANGED:
                self._tell_change(frame)
            case FrameKind.BUILT:
                facts = json.loads(frame.facts)
                self.environment_type = facts["type"]
                self._awaited = frozenset(map(Kind, facts["awaited"]))
                self._settle(None)
            case FrameKind.FAILED:
                self._settle(verdicts.WorkerTraceback(json.loads(frame.facts)))
            case FrameKind.CANCELLED:
                self._done(asyncio.CancelledError())
            case FrameKind.BROKE:
                self._done(verdicts.WorkerTraceback(json.loads(frame.facts)))
            case _:
                self._is_closed()

    def _tell(self, frame: Frame) -> None:
        """Hands on what a tool tells. What is left over of an earlier operation is dropped."""
        if self._running is not None and frame.number == self._number:
            listener = self._running[0].listener
            if listener is not None:
                listener.tell(read_notice(frame.facts))

    def _tell_change(self, frame: Frame) -> None:
        if self._running is not None and frame.number == self._number:
            tell = self._running[0].changes
            if tell is not None:
                tell(read_change(frame.facts))

    def _ask(self, frame: Frame) -> None:
        """Hands on what a tool asks, and later sends what came of it."""
        questions = read_questions(frame.facts)
        for question in questions:
            question.answered.add_done_callback(partial(self._answer, frame.number, question))
        client = None if self._running is None else self._running[0].client
        if client is not None and frame.number == self._number:
            client.ask(questions)

    def _answer(self, number: int, question: ToolQuestion, _: Future[JsonValue]) -> None:
        if self._child is not None and self._running is not None and number == self._number:
            content = write_answer(question)
            self._child.send(FrameKind.ANSWER, number=number, content=content)

    def left_alone(self, exit_code: int) -> None:
        """Notes that the process has ended."""
        self._child = None
        closing = self._closed is not None
        self._is_closed()
        crash = verdicts.process_ended(exit_code)
        if self._settled is not None:
            self._settle(crash)
        elif not closing:
            self._crashed(crash)
        self._done((b"", crash))

    def _done(self, outcome: Outcome | BaseException) -> None:
        running, self._running = self._running, None
        if running is not None:
            operation, done = running
            done(operation, outcome)

    # The end

    def retire(self) -> None:
        """Does nothing: no operation is in the process but the one that runs."""

    async def close(self) -> None:
        """Closes the environment. Cancelling this gives up waiting, not closing."""
        if self._child is None:
            return
        self._closed = asyncio.get_running_loop().create_future()
        self._child.send(FrameKind.CLOSE)
        await self._closed
        self.vacate()

    def _is_closed(self) -> None:
        if self._closed is not None and not self._closed.done():
            self._closed.set_result(None)

    def abandon(self) -> None:
        """Ends the process, whatever it does."""
        child = self._leave()
        if child is not None:
            child.kill()

    def vacate(self) -> None:
        """Lets the process end, which has nothing left to do."""
        child = self._leave()
        if child is not None:
            self._pool.end(child)

    def forget(self) -> None:
        """Has nothing to drop: the environment ended with its process."""

    def _leave(self) -> Child | None:
        child, self._child = self._child, None
        self._settled = None
        if child is not None:
            child.tenant = None
        self._done((b"", verdicts.closed()))  # it has its answer already
        return child
