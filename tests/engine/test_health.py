from __future__ import annotations

import asyncio

from openenv_grpc.engine.health import Health


async def test_health_fails_while_more_calls_are_stuck_than_may_be() -> None:
    health = Health(max_stuck=1)

    told = []
    for stuck in (0, 1, 2, 1):
        health.note_stuck(stuck)
        told.append(health.serving)

    assert told == [True, True, False, True]


async def test_a_drain_ends_health_for_good_and_wakes_who_waits() -> None:
    health = Health(max_stuck=8)
    waiting = [asyncio.create_task(health.changed()) for _ in range(2)]
    await asyncio.sleep(0)
    waiting.pop().cancel()  # whom the others do not mind

    health.drain()

    async with asyncio.timeout(5):
        await waiting[0]
        await health.until_draining()
    assert (health.serving, health.draining) == (False, True)
