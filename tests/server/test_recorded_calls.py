"""Tool calls that may be sent again: run once, answered as often as they are sent."""

from __future__ import annotations

import asyncio

import pytest

from openenv_grpc.errors import DrainingError, Effect, EnvironmentFailedError, RequestConflictError
from openenv_grpc.hearing import Hearing
from openenv_grpc.operations import Deliver, Kind, Listener, Operation, Reply
from openenv_grpc.server.recorded_calls import RecordedCalls
from openenv_grpc.tools import ToolNotice, ToolProgress
from openenv_grpc.wire.tool_messages import ToolCodec

OPERATION = Operation(kind=Kind.CALL_TOOL, codec=ToolCodec())


class Submitted:
    """Takes what is submitted, and answers it when told."""

    def __init__(self) -> None:
        self.calls: list[tuple[Listener, Deliver]] = []

    def __call__(self, listener: Listener, deliver: Deliver) -> None:
        self.calls.append((listener, deliver))

    def tell(self, progress: float) -> None:
        self.calls[-1][0].tell(ToolProgress(progress=progress))

    def answer(self, content: bytes = b"", error: Exception | None = None) -> None:
        self.calls[-1][1](Reply(OPERATION, content, error))  # type: ignore[arg-type]


async def all_of(hearing: Hearing) -> list[ToolNotice | Reply]:
    async with asyncio.timeout(30):
        return [told async for told in hearing.heard()]


async def reply(hearing: Hearing) -> Reply:
    last = (await all_of(hearing))[-1]
    assert isinstance(last, Reply)
    return last


async def submit(calls: RecordedCalls, name: str, submitted: Submitted) -> None:
    """Calls, and leaves."""
    async with calls.once(name, b"x", submitted):
        pass


async def test_a_call_runs_once_and_answers_all_who_ask() -> None:
    calls, submitted = RecordedCalls(), Submitted()
    async with calls.once("c", b"x", submitted) as one, calls.once("c", b"x", submitted) as two:
        submitted.answer(b"done")
        assert [(await reply(each)).content for each in (one, two)] == [b"done", b"done"]
    async with calls.once("c", b"x", submitted) as three:
        assert (await reply(three)).content == b"done"
    assert len(submitted.calls) == 1


async def test_who_comes_later_hears_what_is_told_from_then_on() -> None:
    calls, submitted = RecordedCalls(), Submitted()
    async with calls.once("c", b"x", submitted) as one:
        submitted.tell(1)
        async with calls.once("c", b"x", submitted) as two:
            submitted.tell(2)
            submitted.answer()
            first, second = ToolProgress(progress=1), ToolProgress(progress=2)
            assert (await all_of(one))[:-1] == [first, second]
            assert (await all_of(two))[:-1] == [second]


async def test_an_id_stands_for_one_content() -> None:
    calls = RecordedCalls()
    await submit(calls, "c", Submitted())
    with pytest.raises(RequestConflictError):
        async with calls.once("c", b"y", Submitted()):
            pass


async def test_who_leaves_takes_no_answer_from_others() -> None:
    calls, submitted = RecordedCalls(), Submitted()
    await submit(calls, "c", submitted)
    async with calls.once("c", b"x", submitted) as staying:
        submitted.answer(b"done")
        assert (await reply(staying)).content == b"done"


async def test_a_call_that_did_not_run_may_be_tried_again() -> None:
    calls, submitted = RecordedCalls(), Submitted()
    async with calls.once("c", b"x", submitted) as refused:
        submitted.answer(error=DrainingError("later"))
        assert (await reply(refused)).error is not None
    await submit(calls, "c", submitted)
    assert len(submitted.calls) == 2
    submitted.answer(error=EnvironmentFailedError("oh", effect=Effect.UNKNOWN))
    await submit(calls, "c", submitted)
    assert len(submitted.calls) == 2


@pytest.mark.parametrize("limits", [{"max_calls": 2}, {"max_bytes": 20}], ids=["calls", "bytes"])
async def test_the_latest_answers_are_kept_and_what_runs_is(limits: dict[str, int]) -> None:
    calls = RecordedCalls(**limits)
    await submit(calls, "running", Submitted())
    for name in ("a", "b", "c"):
        submitted = Submitted()
        await submit(calls, name, submitted)
        submitted.answer(b"0123456789")
    again = Submitted()
    for name in ("running", "b", "c"):
        await submit(calls, name, again)
    assert again.calls == []
    await submit(calls, "a", again)
    assert len(again.calls) == 1
