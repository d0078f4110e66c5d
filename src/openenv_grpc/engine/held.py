"""A context that stays entered for a session's life, in a task of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

Entered = Callable[[BaseException | None], None]
"""Called once, with what went wrong if entering failed."""


class HeldContext:
    """Enters a context and leaves it in the same task, as contexts of anyio demand."""

    def __init__(self, context: AbstractAsyncContextManager[Any], entered: Entered) -> None:
        self._context = context
        self._tell: Entered | None = entered
        self._leave = asyncio.Event()
        self.task = asyncio.get_running_loop().create_task(self._hold())

    def stop_entering(self) -> None:
        """Gives up entering, if that is not over."""
        if self._tell is not None:
            self.task.cancel()

    async def leave(self) -> None:
        """Leaves the context, or stops entering it; waits until that is done."""
        self._leave.set()
        self.stop_entering()
        await asyncio.wait({self.task})

    async def _hold(self) -> BaseException | None:
        """Returns what leaving the context raised."""
        try:
            async with self._context:
                self._report(None)
                await self._leave.wait()
        except BaseException as error:  # foreign code may raise anything
            self._report(error)
            return error
        return None

    def _report(self, error: BaseException | None) -> None:
        if self._tell is not None:
            tell, self._tell = self._tell, None
            tell(error)
