"""The rules of request ids as a model, and sessions that are held against it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from openenv_grpc.engine import EngineSettings, SessionManager
from openenv_grpc.errors import OpenEnvError, SessionNotFoundError
from openenv_grpc.operations import Kind, Operation, Reply
from openenv_grpc.sessions import Attachment, Resume, SessionPort
from tests.engine.talking import CODEC, ManualClock, definition
from tests.environments import AsyncCountdown, Count, Counted

KEY = "a key of at least 22 characters"
WINDOW_S = 60
KINDS = [Kind.STEP, Kind.STEP, Kind.STATE, Kind.SNAPSHOT]

ResultT = TypeVar("ResultT")


class Gated(AsyncCountdown):
    """Each step waits for its gate."""

    SNAPSHOT_FIELDS = ("left", "steps")

    gates: ClassVar[list[asyncio.Future[None]]] = []

    async def step_async(
        self, action: Count, timeout_s: float | None = None, **kwargs: Any
    ) -> Counted:
        gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.gates.append(gate)
        await gate
        return await super().step_async(action, timeout_s)


@dataclass
class Asked:
    """One operation as the model knows it."""

    kind: Kind
    text: str
    answer: tuple[object, ...] | None = None
    """What any of its sendings is answered with; `None` while that is due."""
    forgotten: bool = False


@dataclass
class Sending:
    """One sending of an operation, through one hold."""

    hold: int
    request_id: int
    replies: list[Reply] = field(default_factory=list)
    answer: tuple[object, ...] | None = None
    """What it has been answered with, by the model."""


class IdRules(RuleBasedStateMachine):
    """A session, and what it has to do."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock = ManualClock()
        self.asked: dict[int, Asked] = {}
        self.queue: list[int] = []
        self.steps = 0
        self.snapshots = 0
        self.closed = False
        self.gone = False  # nothing can be attached to any more
        self.holds: list[SessionPort] = []
        self.blocks: list[AsyncExitStack] = []  # the connections of the holds
        self.connections = AsyncExitStack()
        self.holder: int | None = None
        self.sendings: list[Sending] = []

    @initialize()
    def open(self) -> None:
        Gated.gates.clear()
        self.runner.run(self._start())
        self.asked[1] = Asked(Kind.OPEN, "")
        self.queue = [1]
        self._open()
        self._go_on()

    # What a client does

    @precondition(lambda self: self.holder is not None)
    @rule(kind=st.sampled_from(KINDS), text=st.sampled_from("ab"))
    def send_the_next(self, kind: Kind, text: str) -> None:
        assert self.holder is not None
        self._send_next(self.holder, kind, text)

    @precondition(lambda self: self.holder is not None and len(self.asked) > 3)
    @rule()
    def close(self) -> None:
        assert self.holder is not None
        self._send_next(self.holder, Kind.CLOSE, "")

    @precondition(lambda self: self.holder is not None)
    @rule(ahead=st.integers(2, 5))
    def send_ahead(self, ahead: int) -> None:
        assert self.holder is not None
        sending = self._send(self.holder, Kind.STEP, len(self.asked) + ahead, "")
        sending.answer = ("OUT_OF_ORDER",)
        self._check()

    @precondition(lambda self: self.holder is not None)
    @rule(data=st.data())
    def send_again(self, data: st.DataObject) -> None:
        assert self.holder is not None
        number = data.draw(st.sampled_from(sorted(self.asked)))
        asked = self.asked[number]
        sending = self._send(self.holder, asked.kind, number, asked.text)
        sending.answer = ("OUTCOME_FORGOTTEN",) if asked.forgotten else asked.answer
        self._check()

    @precondition(lambda self: self.holder is not None)
    @rule(data=st.data())
    def send_something_else(self, data: st.DataObject) -> None:
        assert self.holder is not None
        number = data.draw(st.sampled_from(sorted(self.asked)))
        sending = self._send(self.holder, Kind.STEP, number, "something else")
        forgotten = self.asked[number].forgotten
        sending.answer = ("OUTCOME_FORGOTTEN",) if forgotten else ("REQUEST_CONFLICT",)
        self._check()

    @precondition(lambda self: self.holder is not None)
    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        assert self.holder is not None
        number = data.draw(st.integers(0, len(self.asked)))
        hold = self.holds[self.holder]
        self._do(lambda: hold.acknowledge(number))
        for each in range(1, number + 1):
            if self.asked[each].answer is None:
                break
            self.asked[each].forgotten = True

    @precondition(lambda self: self.over)
    @rule(data=st.data())
    def send_through_a_hold_that_is_over(self, data: st.DataObject) -> None:
        hold = data.draw(st.sampled_from(self.over))
        sending = self._send(hold, Kind.STEP, len(self.asked) + 1, "")
        self.sendings.remove(sending)
        self._do(lambda: self.holds[hold].acknowledge(len(self.asked)))
        [reply] = sending.replies
        assert meaning(reply) in (("SESSION_TAKEN_OVER",), ("SESSION_CLOSED",))
        self._check()

    # What becomes of connections

    @precondition(lambda self: self.holder is not None)
    @rule()
    def lose_the_connection(self) -> None:
        assert self.holder is not None
        self.runner.run(self.blocks[self.holder].aclose())
        self.holder = None
        self._check()

    @precondition(lambda self: not self.gone)
    @rule()
    def attach(self) -> None:
        self._held(self._attach(KEY))
        assert self.holds[-1].last_request_id == len(self.asked)
        self._check()

    @precondition(lambda self: not self.gone)
    @rule()
    def open_again(self) -> None:
        self._open()
        asked = self.asked[1]
        self.sendings[-1].answer = ("OUTCOME_FORGOTTEN",) if asked.forgotten else asked.answer
        self._check()

    @rule()
    def attach_in_vain(self) -> None:
        with pytest.raises(SessionNotFoundError):
            self._attach(KEY if self.gone else KEY + "x")

    @precondition(lambda self: self.closed or self.holder is None)
    @rule(passes=st.booleans())
    def wait(self, passes: bool) -> None:
        self._do(lambda: self.clock.advance(WINDOW_S + 1 if passes else 0))
        if passes:
            self.gone = True
            if self.holder is None:
                self.closed = True
                self.queue.clear()

    # What the environment does

    @precondition(lambda self: bool(self.queue) and not self.closed)
    @rule()
    def let_a_step_end(self) -> None:
        number = self.queue.pop(0)
        assert self.asked[number].kind is Kind.STEP
        self.runner.run(self._open_gate())
        self._answer_step(number)
        self._go_on()

    # The model

    def _send_next(self, hold: int, kind: Kind, text: str) -> None:
        number = len(self.asked) + 1
        sending = self._send(hold, kind, number, text)
        if self.closed:
            sending.answer = ("SESSION_CLOSED",)
        else:
            self.asked[number] = Asked(kind, text)
            self.queue.append(number)
        self._go_on()

    def _go_on(self) -> None:
        """Does what does not wait, and sees that the session did the same."""
        while self.queue and self.asked[self.queue[0]].kind is not Kind.STEP:
            number = self.queue.pop(0)
            match self.asked[number].kind:
                case Kind.OPEN:
                    self._answer(number, ("open",))
                case Kind.STATE:
                    self._answer(number, ("state", self.steps))
                case Kind.SNAPSHOT:
                    self.snapshots += 1
                    self._answer(number, ("snapshot",))
                case _:
                    self._answer(number, ("closed", self.steps))
                    self.closed = True
                    for behind in self.queue:
                        self._answer(behind, ("SESSION_CLOSED",))
                    self.queue.clear()
        self._check()

    def _answer_step(self, number: int) -> None:
        self.steps += 1
        self._answer(number, ("step", -self.steps, self.asked[number].text))

    def _answer(self, number: int, answer: tuple[object, ...]) -> None:
        self.asked[number].answer = answer
        for sending in self.sendings:
            due = sending.request_id == number and sending.answer is None
            if due and sending.hold == self.holder:
                sending.answer = answer

    # The session

    def _do(self, call: Callable[[], ResultT]) -> ResultT:
        """Calls something on the event loop."""

        async def do() -> ResultT:
            return call()

        return self.runner.run(do())

    def _connection(self) -> Attachment:
        block = AsyncExitStack()
        self.connections.push_async_callback(block.aclose)
        self.blocks[len(self.holds) :] = [block]
        return self.runner.run(block.enter_async_context(self.manager.attach(peer="model")))

    def _attach(self, key: str) -> SessionPort:
        attachment = self._connection()
        return self._do(lambda: attachment.attach(self.holds[0].id, key))

    def _open(self) -> None:
        attachment = self._connection()
        sending = Sending(len(self.holds), 1)
        self.sendings.append(sending)
        port = self._do(
            lambda: attachment.open(
                "",
                operation=self._operation(Kind.OPEN, 1, ""),
                deliver=sending.replies.append,
                resume=Resume(key=KEY, window_s=WINDOW_S),
            )
        )
        self._held(port)

    def _held(self, port: SessionPort) -> None:
        self.holds.append(port)
        self.holder = len(self.holds) - 1

    @property
    def over(self) -> list[int]:
        """The holds that are over."""
        return [hold for hold in range(len(self.holds)) if hold != self.holder]

    def _operation(self, kind: Kind, number: int, text: str) -> Operation:
        digest = f"{kind.value} {text}".encode()
        payload = {"text": text} if kind is Kind.STEP else None
        return Operation(kind=kind, codec=CODEC, payload=payload, request_id=number, digest=digest)

    def _send(self, hold: int, kind: Kind, number: int, text: str) -> Sending:
        sending = Sending(hold, number)
        self.sendings.append(sending)

        operation = self._operation(kind, number, text)
        self._do(lambda: self.holds[hold].submit(operation, sending.replies.append))
        return sending

    async def _start(self) -> None:
        definitions = [definition(Gated, max_sessions=1)]
        engine = EngineSettings(max_operations_per_session=1000)
        self.manager = SessionManager(definitions, engine, clock=self.clock)
        await self.manager.__aenter__()

    async def _open_gate(self) -> None:
        async with asyncio.timeout(5):
            while not Gated.gates:
                await asyncio.sleep(0)
        Gated.gates.pop(0).set_result(None)

    def _check(self) -> None:
        self.runner.run(self._agree())
        self.sendings = [each for each in self.sendings if each.answer is None]

    async def _agree(self) -> None:
        for sending in self.sendings:
            if sending.answer is not None:
                async with asyncio.timeout(5):
                    while not sending.replies:
                        await asyncio.sleep(0)
        for _ in range(3):
            await asyncio.sleep(0)
        assert self.manager.metrics.snapshots == self.snapshots
        for sending in self.sendings:
            if sending.answer is not None:
                [reply] = sending.replies
                assert meaning(reply) == sending.answer
            else:
                assert sending.replies == []

    def teardown(self) -> None:
        self.runner.run(self._stop())
        self.runner.close()

    async def _stop(self) -> None:
        await self.connections.aclose()
        await self.manager.__aexit__(None, None, None)
        assert self.manager.sessions() == []
        assert self.clock.waiting == 0


def meaning(reply: Reply) -> tuple[object, ...]:
    error: OpenEnvError | None = reply.error
    if error is not None:
        return (error.reason.name,)
    content = json.loads(reply.content)
    match reply.operation.kind:
        case Kind.STEP:
            return ("step", content["left"], content["text"])
        case Kind.STATE:
            return ("state", content["step_count"])
        case Kind.SNAPSHOT:
            return ("snapshot",)
        case Kind.CLOSE:
            return ("closed", content["step_count"])
        case _:
            return ("open",)


def test_a_session_keeps_to_the_rules_of_ids() -> None:
    run_state_machine_as_test(
        IdRules, settings=settings(max_examples=60, stateful_step_count=40, deadline=None)
    )
