"""Waits for a session at one worker, and takes one of another that comes back meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from openenv_grpc.client.remote_session import RemoteSession
from openenv_grpc.errors import SessionCapacityError, UnavailableError

FIRST_DELAY_S = 0.5
LAST_DELAY_S = 2.0
"""How long a worker that cannot be reached is left alone: twice as long each time."""


async def first_opened(
    waiting: Coroutine[Any, Any, RemoteSession],
    others: Sequence[Coroutine[Any, Any, RemoteSession | None]],
) -> RemoteSession:
    """Returns the session that is opened first. Raises what `waiting` does, if none is."""
    if not others:
        return await waiting
    first: asyncio.Task[RemoteSession] = asyncio.create_task(waiting)
    tasks: list[asyncio.Task[Any]] = [first, *map(asyncio.create_task, others)]
    pending = set(tasks)
    taken: RemoteSession | None = None
    try:
        while taken is None and first in pending:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            taken = next(filter(None, map(_opened, done)), None)
    finally:
        await _end(tasks, but=taken)
    return first.result() if taken is None else taken


async def opened_once_there(
    open_at_once: Callable[[], Awaitable[RemoteSession]],
) -> RemoteSession | None:
    """Opens a session once its worker can be reached; `None` if that has no slot then."""
    delay_s = FIRST_DELAY_S
    while True:
        await asyncio.sleep(delay_s)
        delay_s = min(2 * delay_s, LAST_DELAY_S)
        try:
            return await open_at_once()
        except SessionCapacityError:
            return None
        except UnavailableError:
            pass


async def _end(tasks: Sequence[asyncio.Task[Any]], *, but: RemoteSession | None) -> None:
    """Ends what still waits, and closes sessions that nobody takes."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    for session in map(_opened, tasks):
        if session is not None and session is not but:
            await session.close()


def _opened(task: asyncio.Task[RemoteSession | None]) -> RemoteSession | None:
    if task.cancelled() or task.exception() is not None:
        return None
    return task.result()
