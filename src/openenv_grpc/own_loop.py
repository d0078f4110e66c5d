"""An event loop of one's own, for blocking code that has something to await."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, TypeVar

ResultT = TypeVar("ResultT")
HeldT = TypeVar("HeldT")


class OwnLoop:
    """Runs coroutines one at a time, always on the same loop, which rests in between.

    The loop is made at first use and runs on the calling thread. Where a loop runs there already,
    another thread is borrowed, and the caller blocks all the same.
    """

    def __init__(self) -> None:
        self._runner: asyncio.Runner | None = None

    def run(self, coroutine: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Returns what the coroutine returns."""
        if self._runner is None:
            self._runner = asyncio.Runner()
        context = contextvars.copy_context()  # the runner has its own, as of its first use
        if not loop_is_running():
            return self._runner.run(coroutine, context=context)
        with ThreadPoolExecutor(1) as elsewhere:
            return elsewhere.submit(self._runner.run, coroutine, context=context).result()

    def close(self) -> None:
        """Cancels what still waits on the loop, and closes it."""
        runner, self._runner = self._runner, None
        if runner is None:
            return
        if not loop_is_running():
            runner.close()
            return
        with ThreadPoolExecutor(1) as elsewhere:
            elsewhere.submit(runner.close).result()


def run_apart(coroutine: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Returns what the coroutine returns, run on a loop that is made for it."""
    loop = OwnLoop()
    try:
        return loop.run(coroutine)
    finally:
        loop.close()


class Held(Generic[HeldT]):
    """Keeps an async context manager entered from its first use on, between runs of a loop.

    One task enters and leaves it, as libraries built on anyio demand.
    """

    def __init__(self, manager: AbstractAsyncContextManager[HeldT]) -> None:
        self._manager = manager
        self._leave = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._entered: asyncio.Future[HeldT] | None = None

    async def get(self) -> HeldT:
        """Returns what the context manager gives."""
        if self._task is None or self._entered is None:
            self._entered = asyncio.get_running_loop().create_future()
            self._task = asyncio.create_task(self._hold(self._entered))
        await asyncio.wait((self._entered, self._task), return_when=asyncio.FIRST_COMPLETED)
        if not self._entered.done():
            self._task.result()  # raises what kept it from being entered
        return await self._entered

    async def _hold(self, entered: asyncio.Future[HeldT]) -> None:
        async with self._manager as held:
            entered.set_result(held)
            await self._leave.wait()

    async def leave(self) -> None:
        """Leaves the context manager, if it was entered."""
        self._leave.set()
        if self._task is not None:
            await self._task


def loop_is_running() -> bool:
    """Tells whether an event loop runs on this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
