"""The environment of a worker process, and what is asked of it."""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import os
import pickle
import threading
import traceback
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, TypeVar

from openenv_grpc import tracing
from openenv_grpc.engine import adapt
from openenv_grpc.engine.books import Books
from openenv_grpc.engine.held import HeldContext
from openenv_grpc.engine.housing import awaited
from openenv_grpc.engine.instance import Instance
from openenv_grpc.engine.performing import Outcome, Performer
from openenv_grpc.engine.process.frames import Frame, FrameKind, read_operation, write_error
from openenv_grpc.engine.process.line import Line, LineClient, LineListener
from openenv_grpc.engine.registry import RegisteredEnvironment
from openenv_grpc.engine.traced import make_performer
from openenv_grpc.events import log_event
from openenv_grpc.operations import Kind, Operation

logger = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")


class Resident:
    """Builds, uses and closes an environment: on the main thread, and on a loop what is awaited."""

    def __init__(
        self, registered: RegisteredEnvironment, line: Line, *, redact_errors: bool
    ) -> None:
        self._tracing = tracing.configured()
        self._registered = registered
        self._line = line
        self._redact_errors = redact_errors
        self._books = Books()
        self._performer: Performer | None = None
        self._tools: HeldContext | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running: tuple[int, asyncio.Task[Outcome | BaseException]] | None = None
        self._client: LineClient | None = None  # of the last operation whose tool may ask

    def serve(self) -> None:
        """Does what the server asks, until it asks for the end or is gone."""
        while (frame := self._line.receive()) is not None:
            match frame.kind:
                case FrameKind.BUILD:
                    self._build(frame)
                case FrameKind.RUN:
                    self._run(frame)
                case FrameKind.CANCEL:
                    self._on_loop().call_soon_threadsafe(self._cancel, frame.number)
                case FrameKind.ANSWER:
                    self._answer(frame)
                case _:
                    self._close()
                    return

    # The beginning

    def _build(self, frame: Frame) -> None:
        session_id, modules = pickle.loads(frame.content)
        self._line.session_id = session_id
        try:
            self._performer = performer = make_performer(
                Instance(self._registered.factory(), self._registered, self._books),
                self._tracing,
                session_id=session_id,
                redact_errors=self._redact_errors,
            )
            context = adapt.tool_session(performer.instance.environment)
            if context is not None:
                self._await(self._enter(context))
            for module in modules:
                importlib.import_module(module)
        except BaseException:  # a constructor may even raise SystemExit
            self._line.send(FrameKind.FAILED, facts=_json(traceback.format_exc()))
            return
        shape = performer.instance.shape
        facts = {"type": shape.cls.__name__, "awaited": _awaited_kinds(performer.instance)}
        self._line.send(FrameKind.BUILT, facts=_json(facts))

    async def _enter(self, context: AbstractAsyncContextManager[Any]) -> None:
        entered: asyncio.Future[BaseException | None] = self._on_loop().create_future()
        self._tools = HeldContext(context, entered.set_result)
        error = await entered
        if error is not None:
            raise error

    # Its use

    def _run(self, frame: Frame) -> None:
        performer = self._performer
        assert performer is not None
        try:
            listener = LineListener(self._line, frame.number)
            operation = read_operation(
                frame.content,
                listener,
                partial(self._client_of, frame.number),
                listener.tell_change,
            )
            if performer.instance.awaits(operation):
                loop = self._on_loop()
                loop.call_soon_threadsafe(self._start, performer, operation, frame.number)
            elif performer.instance.is_at_hand(operation.kind):
                self._tell(self._await(_perform_there(performer, operation)))
            else:
                self._tell(performer.perform(operation))
        except BaseException as error:
            self._broke(error)

    def _client_of(self, number: int, offers: frozenset[str]) -> LineClient:
        if self._client is not None:  # a thread of the tool may wait on
            self._client.hang_up("the call is over")
        self._client = LineClient(self._line, number, offers)
        return self._client

    def _answer(self, frame: Frame) -> None:
        if self._client is not None:
            self._client.answer(frame)

    def _start(self, performer: Performer, operation: Operation, number: int) -> None:
        task = asyncio.get_running_loop().create_task(awaited(performer, operation))
        self._running = number, task
        task.add_done_callback(self._ended)

    def _cancel(self, number: int) -> None:
        if self._running is not None and self._running[0] == number:
            self._running[1].cancel()

    def _ended(self, task: asyncio.Task[Outcome | BaseException]) -> None:
        self._running = None
        if task.cancelled():
            self._line.send(FrameKind.CANCELLED)
            return
        outcome = task.result()
        if isinstance(outcome, BaseException):
            self._broke(outcome)
        else:
            self._tell(outcome)

    def _tell(self, outcome: Outcome) -> None:
        content, error = outcome
        self._line.send(
            FrameKind.OUTCOME,
            number=self._books.total_steps * 2 + self._books.under_way,
            facts=b"" if error is None else write_error(error),
            content=content,
        )

    def _broke(self, error: BaseException) -> None:
        """Handles what no operation should end with."""
        if isinstance(error, Exception):
            text = "".join(traceback.format_exception(error))
            self._line.send(FrameKind.BROKE, facts=_json(text))
            return
        log_event(
            logger,
            logging.ERROR,
            "environment ends its process",
            error=error,
            session_id=self._line.session_id,
            environment=self._registered.spec.name,
        )
        # At once, since threads of the environment could hold up an orderly end for ever.
        os._exit(error.code if isinstance(error, SystemExit) and type(error.code) is int else 1)

    # The end

    def _close(self) -> None:
        if self._tools is not None:
            self._await(self._tools.leave())
        performer = self._performer
        close = None if performer is None else performer.instance.shape.close
        if performer is not None and close is not None:
            if close.asynchronous:
                self._await(performer.close_async())
            else:
                performer.close()
        self._line.send(FrameKind.CLOSED)

    # The loop

    def _on_loop(self) -> asyncio.AbstractEventLoop:
        """Returns the loop, which runs on a thread of its own from its first use on."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            name = "openenv loop"
            threading.Thread(target=self._loop.run_forever, name=name, daemon=True).start()
        return self._loop

    def _await(self, coroutine: Coroutine[Any, Any, ResultT]) -> ResultT:
        return asyncio.run_coroutine_threadsafe(coroutine, self._on_loop()).result()


async def _perform_there(performer: Performer, operation: Operation) -> Outcome:
    return performer.perform(operation)


def _awaited_kinds(instance: Instance) -> list[str]:
    return [kind.value for kind in Kind if instance.awaits_kind(kind)]


def _json(value: object) -> bytes:
    return json.dumps(value).encode()
