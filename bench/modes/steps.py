"""Sessions that each send their next step as soon as they have the last answer."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any

from bench.jobs import Job, Measured
from bench.modes.sessions import close_all, connect_all
from bench.modes.watch import Watch, quantile

PATIENCE = 20


async def step(job: Job, client_type: Any) -> Measured:
    """Measures steps per second, their latency, and both sides' processor time."""
    action = job.content()
    clients = await connect_all(client_type, job)
    latencies: list[float] = []
    enough = asyncio.Event()
    stop = False

    async def drive(client: Any) -> None:
        while not stop:
            start = time.perf_counter()
            await client.step(action)
            latencies.append(time.perf_counter() - start)
            if len(latencies) == job.sessions:
                enough.set()

    tasks = [asyncio.create_task(drive(client)) for client in clients]
    await asyncio.sleep(job.warm_up_s)
    latencies.clear()
    enough.clear()
    watch = Watch(job.server)
    await asyncio.sleep(job.seconds)
    # Where a round of all sessions takes longer, the first to answer would stand for all.
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE * job.seconds):
            await enough.wait()
    found = watch.measured(len(latencies))
    ordered = sorted(latencies)
    found["p50_us"] = quantile(ordered, 0.5) * 1e6
    found["p99_us"] = quantile(ordered, 0.99) * 1e6
    stop = True
    await asyncio.gather(*tasks)
    await close_all(clients)
    if job.size_bytes:
        found["mib_per_s"] = found["steps_per_s"] * job.size_bytes / 2**20
    return found
