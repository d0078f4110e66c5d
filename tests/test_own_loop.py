"""A loop of one's own: where it runs, what it keeps, how it ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from openenv_grpc.own_loop import Held, OwnLoop, loop_is_running


async def where() -> tuple[asyncio.AbstractEventLoop, int]:
    return asyncio.get_running_loop(), threading.get_ident()


def test_every_run_is_on_the_same_loop_and_on_the_callers_thread() -> None:
    loop = OwnLoop()

    first, second = loop.run(where()), loop.run(where())
    loop.close()

    assert first == second
    assert first[1] == threading.get_ident()


async def test_it_works_where_a_loop_runs_already() -> None:
    loop = OwnLoop()

    ran_on, thread = loop.run(where())
    loop.close()

    assert ran_on is not asyncio.get_running_loop()
    assert thread != threading.get_ident()


def test_an_error_reaches_the_caller() -> None:
    async def fail() -> None:
        raise LookupError("nothing here")

    loop = OwnLoop()

    with pytest.raises(LookupError, match="nothing here"):
        loop.run(fail())
    loop.close()


def test_closing_cancels_what_still_waits() -> None:
    cancelled = threading.Event()

    async def wait_for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async def start() -> asyncio.Task[None]:
        task = asyncio.create_task(wait_for_ever())
        await asyncio.sleep(0)
        return task

    loop = OwnLoop()
    loop.run(start())
    loop.close()

    assert cancelled.is_set()


def test_a_loop_that_was_never_used_can_be_closed() -> None:
    OwnLoop().close()


async def test_a_running_loop_is_noticed() -> None:
    assert loop_is_running()
    assert not await asyncio.to_thread(loop_is_running)


class Door:
    """A context manager that notes which task opened and closed it."""

    def __init__(self) -> None:
        self.tasks: list[asyncio.Task[object] | None] = []

    @asynccontextmanager
    async def open(self) -> AsyncIterator[str]:
        self.tasks.append(asyncio.current_task())
        try:
            yield "inside"
        finally:
            self.tasks.append(asyncio.current_task())


def test_what_is_held_is_entered_once_and_left_by_the_same_task() -> None:
    door, loop = Door(), OwnLoop()
    held = Held(door.open())

    assert [loop.run(held.get()), loop.run(held.get())] == ["inside", "inside"]
    assert len(door.tasks) == 1
    loop.run(held.leave())
    loop.close()

    entered, left = door.tasks
    assert entered is left


def test_what_cannot_be_entered_says_so_each_time() -> None:
    @asynccontextmanager
    async def locked() -> AsyncIterator[str]:
        raise PermissionError("locked")
        yield ""

    loop = OwnLoop()
    held = Held(locked())

    for _ in range(2):
        with pytest.raises(PermissionError, match="locked"):
            loop.run(held.get())
    loop.close()


def test_what_was_never_entered_can_be_left() -> None:
    loop = OwnLoop()

    door = Door()
    loop.run(Held(door.open()).leave())
    loop.close()
