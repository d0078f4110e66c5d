"""Episodes as a trainer plays them: a model thinks about every turn."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from bench.jobs import Job, Measured
from bench.modes.sessions import close_all, connect_all
from bench.modes.watch import Watch

TURNS = 20
MODEL_S = 0.2
"""What stands in for the model's turn. All sessions get theirs at once, which is the worst case."""


async def rollout(job: Job, client_type: Any) -> Measured:
    """Measures how much of the sessions' time goes into the environment, the network included."""
    action = job.content()
    clients = await connect_all(client_type, job)
    watch = Watch(job.server)

    async def play(client: Any) -> float:
        used_s = 0.0
        for turn in range(TURNS + 1):
            start = time.perf_counter()
            await (client.step(action) if turn else client.reset())
            used_s += time.perf_counter() - start
            if turn < TURNS:
                await asyncio.sleep(MODEL_S)
        return used_s

    used = await asyncio.gather(*(play(client) for client in clients))
    elapsed_s = watch.elapsed_s()
    found = watch.measured(len(clients) * TURNS)
    await close_all(clients)
    return found | {"environment_percent": 100 * sum(used) / len(used) / elapsed_s}
