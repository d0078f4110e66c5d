"""Calls of 2026-07-28 whose tools ask: each goes on with its client's next request.

While the client gathers answers the call stays where it is, in its session, and waits. It is named
by a `requestState` that is drawn at random and serves once.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass

from openenv_bridge.mcp import messages
from openenv_bridge.mcp.exchange import Answered, Told, Wanted, written
from openenv_bridge.mcp.messages import INVALID_PARAMS, Call, CallId, McpError
from openenv_grpc.access import Principal
from openenv_grpc.errors import ClientAnswerError
from openenv_grpc.hearing import MAX_WAITING, Asked, Withdrawn
from openenv_grpc.operations import Reply
from openenv_grpc.tools import ToolLog, ToolNotice, ToolProgress, ToolQuestion
from openenv_grpc.types import JsonValue

STATE = "requestState"
ANSWERS = "inputResponses"
MAX_SUSPENDED = 1_000
"""Calls that wait for their clients; beyond that the oldest are cancelled."""
MAX_ALONE = 32
"""Those of them that keep an environment of no session, which no limit of sessions counts."""

Source = AsyncGenerator[ToolNotice | Asked | Withdrawn | Reply, None]
"""A call under way. Closing it cancels the call."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes a call, and in what: another cannot go on with it."""

    principal: Principal
    environment: str
    session_id: str
    """As the call names it; may be empty."""
    repeated: frozenset[tuple[str, str]] = frozenset()
    """The headers that repeat arguments, which have been found to agree with these."""


class Conversation:
    """A call under way, and what its client has been asked."""

    def __init__(
        self,
        source: Source,
        call: Call,
        caller: Caller,
        suspended: Conversations,
        *,
        is_alone: bool = False,
    ) -> None:
        """Describes a call; one that `is_alone` keeps an environment of no session.

        Raises:
            McpError: the answers that come with the call are none.
        """
        self.is_alone = is_alone
        self.opened_by = call
        self.caller = caller
        self.open: dict[str, ToolQuestion] = {}
        """Questions that wait for an answer, by their keys."""
        self._brought = answers_of(call)
        self._source = source
        self._suspended = suspended
        self._queue: asyncio.Queue[ToolNotice | Asked | Withdrawn | Reply | Exception] = (
            asyncio.Queue()
        )
        self.task: asyncio.Task[None] | None = None

    async def leg(self, call: Call, wanted: Wanted) -> Told:
        """Tells of the call until it ends, or asks: then it waits for the next request."""
        if self.task is None:
            self.task = asyncio.create_task(self._pump())
        waits = False
        try:
            while True:
                if self._asks():
                    waits = True
                    yield Answered(self._question(call.id))
                    return
                told = await self._queue.get()
                match told:
                    case Exception():
                        raise told
                    case Asked():
                        self._take(told)
                    case Withdrawn():
                        continue  # it is left out of what is asked next
                    case _:
                        for each in written(told, wanted):
                            yield self._for(each, call.id)
                        if isinstance(told, Reply):
                            return
        finally:
            if not waits:
                await self.cancel()

    async def cancel(self) -> None:
        """Cancels the call, unless it has ended."""
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)

    def answer(self, answers: dict[str, JsonValue], call_id: CallId | None = None) -> None:
        """Gives the tool what was asked for; what was not is left out.

        Raises:
            McpError: an answer is no result of what was asked. Nothing was given then.
        """
        known = [key for key in self.open if key in answers]
        for key in known:
            try:
                self.open[key].check(answers[key])
            except ClientAnswerError as error:
                raise McpError(INVALID_PARAMS, str(error), call_id=call_id) from error
        for key in known:
            self.open.pop(key).answer(answers[key])

    def _asks(self) -> bool:
        """Tells whether anything is asked for which the tool still waits."""
        for key in [key for key, each in self.open.items() if each.answered.done()]:
            del self.open[key]
        return bool(self.open)

    def _take(self, asked: Asked) -> None:
        self.open.update({each.key: each for each in asked.questions})
        brought = {key: self._brought.pop(key) for key in [*self.open] if key in self._brought}
        for key, result in brought.items():
            try:
                self.answer({key: result})
            except McpError:
                continue  # it is asked for

    def _question(self, call_id: CallId) -> bytes:
        requests: dict[str, JsonValue] = {
            key: {"method": each.method, "params": each.params} for key, each in self.open.items()
        }
        result: dict[str, JsonValue] = {
            "resultType": "input_required",
            "inputRequests": requests,
            STATE: self._suspended.keep(self),
        }
        return messages.result(call_id, result)

    def _for(self, told: bytes | Answered, call_id: CallId) -> bytes | Answered:
        """Has an answer, which was written for the first request, answer this one."""
        if isinstance(told, bytes):
            return told
        first = self.opened_by.id
        content = messages.answering(told.content, call_id, written_for=first)
        return Answered(content, told.reply)

    async def _pump(self) -> None:
        try:
            async with aclosing(self._source) as source:
                async for each in source:
                    is_notice = isinstance(each, ToolLog | ToolProgress)
                    if not (is_notice and self._queue.qsize() >= MAX_WAITING):
                        self._queue.put_nowait(each)
        except Exception as error:  # it is raised where the answer is waited for
            self._queue.put_nowait(error)


class Conversations:
    """The calls of a bridge that wait for their clients."""

    def __init__(self, spawn: Callable[[asyncio.Task[None]], None]) -> None:
        """`spawn` keeps tasks that outlive a request, and cancels them when the bridge stops."""
        self._spawn = spawn
        self._waiting: OrderedDict[str, Conversation] = OrderedDict()

    def keep(self, conversation: Conversation) -> str:
        """Keeps a call for its client's next request; returns what names it."""
        task = conversation.task
        assert task is not None  # it has asked
        state = secrets.token_urlsafe(32)
        self._waiting[state] = conversation
        self._spawn(task)
        task.add_done_callback(lambda _: self._waiting.pop(state, None))  # it waits no more
        alone = [name for name, each in self._waiting.items() if each.is_alone]
        if len(alone) > MAX_ALONE:
            self._give_up(alone[0])
        if len(self._waiting) > MAX_SUSPENDED:
            self._give_up(next(iter(self._waiting)))
        return state

    def _give_up(self, state: str) -> None:
        given_up = self._waiting.pop(state)
        if given_up.task is not None:
            given_up.task.cancel()

    def resume(self, call: Call, caller: Caller) -> Conversation:
        """Goes on with a call, and gives its tool the answers.

        Raises:
            McpError: none waits by that name of that caller, or the answers are none.
        """
        state, answers = call.params[STATE], answers_of(call)
        found = self._waiting.get(state) if isinstance(state, str) else None
        if found is None or found.caller != caller or _asked(call) != _asked(found.opened_by):
            told = (
                f"no call of this kind waits by that {STATE}: it is unknown, was used, or its time "
                "is up. Call without it to begin anew"
            )
            raise McpError(INVALID_PARAMS, told, call_id=call.id)
        found.answer(answers, call.id)
        del self._waiting[state]
        return found


def answers_of(call: Call) -> dict[str, JsonValue]:
    """Returns the answers that come with a call. Raises `McpError` if they are none."""
    answers = call.params.get(ANSWERS, {})
    if isinstance(answers, dict) and all(isinstance(each, dict) for each in answers.values()):
        return dict(answers)
    told = f"{ANSWERS} has to be an object, and each answer in it too"
    raise McpError(INVALID_PARAMS, told, call_id=call.id)


def _asked(call: Call) -> tuple[str, dict[str, JsonValue]]:
    """Returns what of a call stays the same from one request to the next."""
    left_out = (STATE, ANSWERS, "_meta")
    kept = {name: value for name, value in call.params.items() if name not in left_out}
    return call.method, kept
