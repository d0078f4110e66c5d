"""Many sessions in lockstep: our vector client, and Gymnasium's own way of doing it."""

from __future__ import annotations

import time
from typing import Any

from bench.jobs import Job, Measured
from bench.modes.watch import Watch


async def vector(job: Job, client_type: Any) -> Measured:
    """Measures steps per second of all sessions of a vector client."""
    import numpy

    from openenv_grpc import VectorEnvClient

    count = job.sessions
    actions: dict[str, Any] = {
        name: numpy.tile(numpy.float32(value), (count, 1)) if name == "values" else [value] * count
        for name, value in job.content().items()
    }
    async with VectorEnvClient(job.url, count) as envs:
        await envs.reset()
        end = time.perf_counter() + job.warm_up_s
        while time.perf_counter() < end:
            await envs.step(actions)
        watch, steps = Watch(job.server), 0
        while time.perf_counter() < watch.start + job.seconds:
            await envs.step(actions)
            steps += count
        return watch.measured(steps)


async def async_vector_env(job: Job, client_type: Any) -> Measured:
    """Measures the same of Gymnasium's `AsyncVectorEnv`: a process each, and no network.

    All its processor time is the client's: its workers are children of this process.
    """
    import numpy
    from gymnasium.vector import AsyncVectorEnv

    envs = AsyncVectorEnv([client_type] * job.sessions)
    try:
        envs.reset()
        actions = numpy.full((job.sessions, 4), 0.5, numpy.float32)
        end = time.perf_counter() + job.warm_up_s
        while time.perf_counter() < end:
            envs.step(actions)
        watch, steps = Watch(0), 0
        while time.perf_counter() < watch.start + job.seconds:
            envs.step(actions)
            steps += job.sessions
        return watch.measured(steps)
    finally:
        envs.close()
