"""Opening and closing many sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from bench.jobs import Job

AT_ONCE = 32


async def connected(client_type: Any, url: str) -> Any:
    """Opens a client and resets its session."""
    client = client_type(base_url=url)
    await client.connect()
    await client.reset()
    return client


async def connect_all(client_type: Any, job: Job) -> list[Any]:
    """Opens as many clients as the job says, some at a time."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one() -> Any:
        async with gate:
            return await connected(client_type, job.url)

    return await asyncio.gather(*(one() for _ in range(job.sessions)))


async def close_all(clients: Sequence[Any]) -> None:
    """Closes clients, all at once."""
    await asyncio.gather(*(client.close() for client in clients))
