"""Tool calls that may be sent again: run once, answered as often as they are sent."""

from __future__ import annotations

import asyncio

import pytest

from openenv_grpc.errors import DrainingError, Effect, EnvironmentFailedError, RequestConflictError
from openenv_grpc.operations import Deliver, Kind, Operation, Reply
from openenv_grpc.server.recorded_calls import RecordedCalls
from openenv_grpc.wire.tool_messages import ToolCodec

OPERATION = Operation(kind=Kind.CALL_TOOL, codec=ToolCodec())


class Submitted:
    """Takes what is submitted, and answers it when told."""

    def __init__(self) -> None:
        self.delivers: list[Deliver] = []

    def __call__(self, deliver: Deliver) -> None:
        self.delivers.append(deliver)

    def answer(self, content: bytes = b"", error: Exception | None = None) -> None:
        self.delivers[-1](Reply(OPERATION, content, error))  # type: ignore[arg-type]


async def test_a_call_runs_once_and_answers_all_who_ask() -> None:
    calls, submitted = RecordedCalls(), Submitted()
    waiting = [calls.once("c", b"x", submitted) for _ in range(2)]
    submitted.answer(b"done")
    assert [(await reply).content for reply in waiting] == [b"done", b"done"]
    assert (await calls.once("c", b"x", submitted)).content == b"done"
    assert len(submitted.delivers) == 1


async def test_an_id_stands_for_one_content() -> None:
    calls = RecordedCalls()
    calls.once("c", b"x", Submitted())
    with pytest.raises(RequestConflictError):
        calls.once("c", b"y", Submitted())


async def test_who_leaves_takes_no_answer_from_others() -> None:
    calls, submitted = RecordedCalls(), Submitted()
    leaving = asyncio.ensure_future(calls.once("c", b"x", submitted))
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.sleep(0)
    staying = calls.once("c", b"x", submitted)
    submitted.answer(b"done")
    assert (await staying).content == b"done"


async def test_a_call_that_did_not_run_may_be_tried_again() -> None:
    calls, submitted = RecordedCalls(), Submitted()
    refused = calls.once("c", b"x", submitted)
    submitted.answer(error=DrainingError("later"))
    assert (await refused).error is not None
    calls.once("c", b"x", submitted)
    assert len(submitted.delivers) == 2
    submitted.answer(error=EnvironmentFailedError("oh", effect=Effect.UNKNOWN))
    calls.once("c", b"x", submitted)
    assert len(submitted.delivers) == 2


@pytest.mark.parametrize("limits", [{"max_calls": 2}, {"max_bytes": 20}], ids=["calls", "bytes"])
async def test_the_latest_answers_are_kept_and_what_runs_is(limits: dict[str, int]) -> None:
    calls = RecordedCalls(**limits)
    running = Submitted()
    calls.once("running", b"x", running)
    for name in ("a", "b", "c"):
        submitted = Submitted()
        calls.once(name, b"x", submitted)
        submitted.answer(b"0123456789")
    again = Submitted()
    for name in ("running", "b", "c"):
        calls.once(name, b"x", again)
    assert again.delivers == []
    calls.once("a", b"x", again)
    assert len(again.delivers) == 1
