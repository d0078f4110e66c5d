"""A session that computes, beside light ones."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from bench.jobs import ACTIONS, Job, Measured
from bench.modes.sessions import close_all, connect_all, connected
from bench.modes.watch import Watch, quantile


async def mixed(job: Job, client_type: Any) -> Measured:
    """Measures the latency of light sessions while one more burns its own time in every step."""
    clients = await connect_all(client_type, job)
    busy = await connected(client_type, job.url)
    latencies: list[float] = []
    burnt = 0
    stop = False

    async def burn() -> None:
        nonlocal burnt
        while not stop:
            await busy.step(ACTIONS["burn"])
            burnt += 1

    async def drive(client: Any) -> None:
        while not stop:
            start = time.perf_counter()
            await client.step(ACTIONS["tiny"])
            latencies.append(time.perf_counter() - start)
            if job.pause_s:
                await asyncio.sleep(job.pause_s)

    tasks = [asyncio.create_task(burn()), *(asyncio.create_task(drive(each)) for each in clients)]
    await asyncio.sleep(job.warm_up_s)
    latencies.clear()
    burnt = 0
    watch = Watch(job.server)
    await asyncio.sleep(job.seconds)
    found = watch.measured(len(latencies))
    ordered = sorted(latencies)
    found["p50_us"] = quantile(ordered, 0.5) * 1e6
    found["p99_us"] = quantile(ordered, 0.99) * 1e6
    found["p99_ms"] = found["p99_us"] / 1e3
    found["burnt_per_s"] = burnt / job.seconds
    stop = True
    await asyncio.gather(*tasks)
    await close_all([busy, *clients])
    return found
