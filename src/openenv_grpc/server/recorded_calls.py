"""The tool calls of one session that may be sent again, and what came of them."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from openenv_grpc.errors import Effect, RequestConflictError
from openenv_grpc.hearing import Hearing
from openenv_grpc.operations import Deliver, Listener, Reply
from openenv_grpc.tools import ToolNotice

MAX_CALLS = 64
MAX_BYTES = 8 * 2**20


Submit = Callable[[Listener, Deliver], None]


@dataclass(slots=True)
class _Call:
    """One call, and who waits for it. Implements `Listener`."""

    content: bytes
    reply: asyncio.Future[Reply]
    hearings: list[Hearing[ToolNotice]] = field(default_factory=list)

    def tell(self, notice: ToolNotice) -> None:
        """Tells all who wait, from any thread."""
        for hearing in tuple(self.hearings):
            hearing.tell(notice)


class RecordedCalls:
    """Calls by their id, and the answers of the latest."""

    def __init__(self, *, max_calls: int = MAX_CALLS, max_bytes: int = MAX_BYTES) -> None:
        self._max_calls = max_calls
        self._max_bytes = max_bytes
        self._calls: OrderedDict[str, _Call] = OrderedDict()

    @asynccontextmanager
    async def once(
        self, call_id: str, content: bytes, submit: Submit
    ) -> AsyncIterator[Hearing[ToolNotice]]:
        """Submits a call that is new. Gives what is heard of it, as of now, and its reply.

        Leaving the block leaves the call alone: others may wait for it.

        Raises:
            RequestConflictError: the id was used for another call.
        """
        call = self._calls.get(call_id)
        if call is not None and call.content != content:
            raise RequestConflictError(
                f"the call_id {call_id!r} was used for another call; choose a new one"
            )
        hearing: Hearing[ToolNotice] = Hearing()
        if call is None:
            call = self._submit(call_id, content, hearing, submit)
        elif call.reply.done():
            hearing.answer(call.reply.result())
        else:
            call.hearings.append(hearing)
        try:
            yield hearing
        finally:
            if hearing in call.hearings:
                call.hearings.remove(hearing)

    def _submit(
        self, call_id: str, content: bytes, hearing: Hearing[ToolNotice], submit: Submit
    ) -> _Call:
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._calls[call_id] = call = _Call(content, reply, [hearing])

        def deliver(answer: Reply) -> None:
            reply.set_result(answer)
            self._answered(call_id, answer)
            for waiting in call.hearings:
                waiting.answer(answer)
            call.hearings.clear()

        submit(call, deliver)
        return call

    def _answered(self, call_id: str, reply: Reply) -> None:
        if reply.error is not None and reply.error.effect is Effect.NONE:
            del self._calls[call_id]  # it did not run, so it may be tried again
            return
        kept_bytes = kept = 0
        for name in [*reversed(self._calls)]:
            answer = self._calls[name].reply
            if not answer.done():
                continue
            kept += 1
            kept_bytes += len(answer.result().content)
            if kept > self._max_calls or kept_bytes > self._max_bytes:
                del self._calls[name]
