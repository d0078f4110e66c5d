"""How long calls are waited for: each as long as it may be, by one timer for all."""

from __future__ import annotations

import asyncio

import pytest

from openenv_grpc.client.patience import Patience
from openenv_grpc.client.pending import Call
from openenv_grpc.client.unanswered import Unanswered
from openenv_grpc.errors import DeadlineExceededError
from openenv_grpc.v1 import session_pb2

LIMIT_S = 20


def asked(unanswered: Unanswered, name: str) -> Call:
    call = Call(asyncio.get_running_loop().create_future())
    call.what, call.request_id = name, len(unanswered) + 1
    unanswered.by_id[call.request_id] = call
    return call


async def test_each_call_is_given_up_after_its_own_limit_whichever_was_asked_first() -> None:
    unanswered = Unanswered()
    patience = Patience(unanswered)
    ended: list[str] = []
    calls = [asked(unanswered, name) for name in ("long", "short", "longer")]

    def note(answer: asyncio.Future[session_pb2.Outcome]) -> None:
        ended.extend(call.what for call in calls if call.answer is answer)

    for call, limit_s in zip(calls, (0.2, 0.01, 0.3), strict=True):
        call.answer.add_done_callback(note)
        patience.allow(call, limit_s)
    async with asyncio.timeout(LIMIT_S):
        for call in calls:
            with pytest.raises(DeadlineExceededError, match=f"no answer to {call.what} within"):
                await call.answer
    assert ended == ["short", "long", "longer"]
    assert list(unanswered.by_id.values()) == calls  # their late outcomes are nobody else's


async def test_a_call_that_has_its_answer_keeps_it() -> None:
    unanswered = Unanswered()
    patience = Patience(unanswered)
    answered, late = asked(unanswered, "answered"), asked(unanswered, "late")
    for call in (answered, late):
        patience.allow(call, 0.01)
    answered.answer.set_result(session_pb2.Outcome(request_id=1))
    async with asyncio.timeout(LIMIT_S):
        with pytest.raises(DeadlineExceededError):
            await late.answer
    assert (await answered.answer).request_id == 1


async def test_after_a_stop_nothing_is_given_up() -> None:
    unanswered = Unanswered()
    patience = Patience(unanswered)
    others = Unanswered()
    stopped, later = asked(unanswered, "stopped"), asked(others, "later")
    patience.allow(stopped, 0.01)
    patience.stop()
    Patience(others).allow(later, 0.05)
    async with asyncio.timeout(LIMIT_S):
        with pytest.raises(DeadlineExceededError):
            await later.answer
    assert not stopped.answer.done()
