"""What a tool tells while it runs."""

from __future__ import annotations

import asyncio
import threading

import pytest

from openenv_grpc.errors import UnserializableResultError
from openenv_grpc.tools.notices import (
    ToolLog,
    ToolNotice,
    ToolProgress,
    heard,
    report_log,
    report_progress,
)


def work() -> str:
    report_progress(1, 2, "half")
    report_log("text")
    return "done"


async def work_later() -> str:
    await asyncio.sleep(0)
    return work()


TOLD = [
    ToolProgress(progress=1.0, total=2.0, message="half"),
    ToolLog(level="info", data="text"),
]


def test_reports_do_nothing_where_nobody_listens() -> None:
    assert work() == "done"


def test_reports_reach_who_listens_for_as_long_as_the_call_lasts() -> None:
    told: list[ToolNotice] = []
    assert heard(told.append, work) == "done"
    work()
    assert told == TOLD


async def test_what_is_awaited_is_heard_too() -> None:
    told: list[ToolNotice] = []
    assert await heard(told.append, work_later) == "done"
    await work_later()
    assert told == TOLD


async def test_two_that_run_at_once_are_told_apart() -> None:
    first: list[ToolNotice] = []
    second: list[ToolNotice] = []
    await asyncio.gather(heard(first.append, work_later), heard(second.append, work_later))
    assert first == second == TOLD


def test_a_thread_of_the_tools_own_tells_nothing_unless_it_takes_the_context_along() -> None:
    told: list[ToolNotice] = []

    def elsewhere() -> None:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    heard(told.append, elsewhere)
    assert told == []


def test_a_level_that_mcp_does_not_have_is_refused_though_nobody_listens() -> None:
    with pytest.raises(ValueError, match="not 'loud'"):
        report_log("text", level="loud")  # type: ignore[arg-type]  # that is the point


def test_what_cannot_become_json_cannot_be_logged() -> None:
    with pytest.raises(UnserializableResultError):
        heard(lambda notice: None, lambda: report_log(object()))
