"""The tool calls of one session that may be sent again, and what came of them."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from openenv_grpc.errors import Effect, RequestConflictError
from openenv_grpc.operations import Deliver, Reply

MAX_CALLS = 64
MAX_BYTES = 8 * 2**20


@dataclass(slots=True)
class _Call:
    content: bytes
    reply: asyncio.Future[Reply]


class RecordedCalls:
    """Calls by their id, and the answers of the latest."""

    def __init__(self, *, max_calls: int = MAX_CALLS, max_bytes: int = MAX_BYTES) -> None:
        self._max_calls = max_calls
        self._max_bytes = max_bytes
        self._calls: OrderedDict[str, _Call] = OrderedDict()

    def once(
        self, call_id: str, content: bytes, submit: Callable[[Deliver], None]
    ) -> asyncio.Future[Reply]:
        """Submits a call that is new. Returns the reply, as it may come to several who wait.

        Raises:
            RequestConflictError: the id was used for another call.
        """
        call = self._calls.get(call_id)
        if call is None:
            reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
            self._calls[call_id] = call = _Call(content, reply)

            def deliver(answer: Reply) -> None:
                reply.set_result(answer)
                self._answered(call_id, answer)

            submit(deliver)
        elif call.content != content:
            raise RequestConflictError(
                f"the call_id {call_id!r} was used for another call; choose a new one"
            )
        return asyncio.shield(call.reply)

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
