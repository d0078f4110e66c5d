"""Sessions that are opened, and do nothing."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from bench.jobs import Job, Measured
from bench.modes.sessions import AT_ONCE, close_all, connect_all, connected
from bench.proc import processor_s, resident_kib

SETTLING_S = 1.0


async def idle(job: Job, client_type: Any) -> Measured:
    """Measures the server's memory for each open session, and how long all take to close."""
    warm = await connected(client_type, job.url)  # what the first session loads is not the others'
    before = resident_kib(job.server)
    start = time.perf_counter()
    clients = await connect_all(client_type, job)
    opened = time.perf_counter()
    await asyncio.sleep(SETTLING_S)
    after = resident_kib(job.server)
    closing = time.perf_counter()
    await close_all([warm, *clients])
    return {
        "kib_per_session": (after - before) / job.sessions,
        "kib_before": before,
        "opens_per_s": job.sessions / (opened - start),
        "closes_per_s": job.sessions / (time.perf_counter() - closing),
    }


async def opening(job: Job, client_type: Any) -> Measured:
    """Measures how many sessions a second are opened, reset and closed."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one() -> None:
        async with gate:
            client = await connected(client_type, job.url)
            await client.close()

    server, start = processor_s(job.server), time.perf_counter()
    await asyncio.gather(*(one() for _ in range(job.sessions)))
    elapsed = time.perf_counter() - start
    return {
        "opens_per_s": job.sessions / elapsed,
        "server_us_per_open": (processor_s(job.server) - server) / job.sessions * 1e6,
    }
