"""Event loops that poll: for how long, and when they leave it."""

from __future__ import annotations

import asyncio
import math
import os

import pytest

from openenv_grpc import busy_polling
from openenv_grpc.busy_polling import LIMIT_S, BusyPolling, limit_of_variable
from openenv_grpc.errors import ConfigurationError

US = 1e-6


class Processor:
    """A clock, and the time that this thread and others have had the processor."""

    def __init__(self) -> None:
        self.now = self.used = 0.0
        self.looks = 0

    def give_way(self) -> None:
        self.looks += 1
        self.used += 10 * US
        self.now += 10 * US


@pytest.fixture
def processor(monkeypatch: pytest.MonkeyPatch) -> Processor:
    made = Processor()
    monkeypatch.setattr(busy_polling, "_give_way", made.give_way)
    return made


def polling_on(processor: Processor, limit_s: float = 100 * US) -> BusyPolling:
    return BusyPolling(limit_s, clock=lambda: processor.now, used=lambda: processor.used)


async def turns(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def looks_of_wait(polling: BusyPolling, processor: Processor, number: int = 50) -> int:
    """Waits for some turns, in vain if they are many, and returns how often that was looked at."""
    before = processor.looks
    polling.begin()
    await turns(number)
    polling.end()
    await turns(2)
    return processor.looks - before


async def test_a_wait_is_looked_at_in_each_turn_of_the_loop_until_something_comes(
    processor: Processor,
) -> None:
    polling = polling_on(processor)

    polling.begin()
    await turns(5)
    looks = processor.looks
    polling.end()
    await turns(5)

    assert looks in (4, 5)
    assert processor.looks == looks


async def test_a_wait_is_looked_at_no_longer_than_the_limit(processor: Processor) -> None:
    assert await looks_of_wait(polling_on(processor), processor) == 10


async def test_a_wait_that_has_begun_does_not_begin_again(processor: Processor) -> None:
    polling = polling_on(processor)
    polling.begin()
    for _ in range(50):
        await turns(1)
        polling.begin()

    assert processor.looks == 10


async def test_after_waits_in_vain_more_and_more_are_slept_through(processor: Processor) -> None:
    polling = polling_on(processor)

    looked_at = [await looks_of_wait(polling, processor) > 0 for _ in range(200)]

    polled = [number for number, looked in enumerate(looked_at) if looked]
    assert polled == [0, 2, 5, 10, 19, 36, 69, 134, 199]


async def test_a_wait_that_is_over_in_time_makes_up_for_those_in_vain(
    processor: Processor,
) -> None:
    polling = polling_on(processor)
    for _ in range(5):  # in vain, skipped, in vain, skipped, skipped
        await looks_of_wait(polling, processor)

    polling.begin()
    await turns(3)
    polling.end()

    looked_at = [await looks_of_wait(polling, processor) > 0 for _ in range(3)]
    assert looked_at == [True, False, True]


async def contend(polling: BusyPolling, processor: Processor, share: float) -> None:
    """Waits in which others have a share of the processor."""
    polling.begin()
    await turns(3)
    own_us = 20
    processor.now += own_us * share / (1 - share) * US
    polling.end()
    await turns(2)


async def looks_after(polling: BusyPolling, processor: Processor, seconds: float) -> int:
    """Lets time pass, and returns how often a short wait is looked at."""
    processor.now += seconds
    return await looks_of_wait(polling, processor, 3)


async def test_a_processor_that_others_want_again_and_again_is_left_to_them(
    processor: Processor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(busy_polling, "MAX_CONTENDED", 20)
    polling = polling_on(processor)
    for _ in range(21):
        await contend(polling, processor, 0.6)
    assert await looks_after(polling, processor, 0.9) == 0
    assert await looks_after(polling, processor, 0.2) > 0


async def test_it_is_left_to_them_for_longer_each_time(
    processor: Processor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(busy_polling, "MAX_CONTENDED", 20)
    polling = polling_on(processor)
    rests = []
    for _ in range(6):
        for _ in range(40):
            await contend(polling, processor, 0.6)
        began = processor.now
        while await looks_after(polling, processor, 0.25) == 0:
            pass
        rests.append(round(processor.now - began))
    assert rests == [1, 2, 4, 8, 16, 16]

    for _ in range(60):
        await contend(polling, processor, 0.1)
    for _ in range(60):
        await contend(polling, processor, 0.6)
    assert await looks_after(polling, processor, 0.5) == 0
    assert await looks_after(polling, processor, 0.6) > 0


@pytest.mark.parametrize("shares", [(0.2,), (0.6, 0.2)], ids=["a little", "now and then"])
async def test_others_may_have_the_processor_meanwhile(
    processor: Processor, monkeypatch: pytest.MonkeyPatch, shares: tuple[float, ...]
) -> None:
    monkeypatch.setattr(busy_polling, "MAX_CONTENDED", 20)
    polling = polling_on(processor)
    for _ in range(100):
        for share in shares:
            await contend(polling, processor, share)

    assert await looks_of_wait(polling, processor) > 0


async def test_with_a_limit_of_0_nothing_is_looked_at(processor: Processor) -> None:
    assert await looks_of_wait(polling_on(processor, 0), processor) == 0


async def test_nothing_is_looked_at_where_a_loop_cannot_give_way(
    processor: Processor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(busy_polling, "_give_way", None)

    assert await looks_of_wait(polling_on(processor), processor) == 0


@pytest.mark.skipif(not hasattr(os, "sched_yield"), reason="there is no sched_yield here")
async def test_a_loop_that_waits_does_not_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0

    def give_way() -> None:
        nonlocal looks
        looks += 1
        os.sched_yield()

    monkeypatch.setattr(busy_polling, "_give_way", give_way)
    read_end, write_end = os.pipe()
    came = asyncio.Event()
    asyncio.get_running_loop().add_reader(read_end, came.set)
    # The machine may be busy, and others may have its processors.
    polling = BusyPolling(30, used=busy_polling.monotonic)
    polling.begin()
    asyncio.get_running_loop().call_later(0.01, os.write, write_end, b"x")

    async with asyncio.timeout(30):
        await came.wait()
    polling.end()

    assert looks > 1
    asyncio.get_running_loop().remove_reader(read_end)
    os.close(read_end)
    os.close(write_end)


@pytest.mark.parametrize(
    ("quota", "limit_s"), [(0.5, 0), (1, 0), (2, LIMIT_S), (math.inf, LIMIT_S)]
)
def test_nothing_is_looked_at_where_a_container_has_a_small_quota(
    monkeypatch: pytest.MonkeyPatch, quota: float, limit_s: float
) -> None:
    monkeypatch.setattr(busy_polling, "processor_quota", lambda: quota)

    assert limit_of_variable() == limit_s


@pytest.mark.parametrize(("said", "limit_s"), [("0", 0), ("250", 0.00025)])
def test_the_variable_says_for_how_long(
    monkeypatch: pytest.MonkeyPatch, said: str, limit_s: float
) -> None:
    monkeypatch.setattr(busy_polling, "processor_quota", lambda: 1.0)
    monkeypatch.setenv("OPENENV_GRPC_BUSY_POLL_US", said)

    assert limit_of_variable() == limit_s


@pytest.mark.parametrize("said", ["-1", "nan", "often", "100001"])
def test_a_variable_that_says_no_time_is_refused(
    monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    monkeypatch.setenv("OPENENV_GRPC_BUSY_POLL_US", said)

    with pytest.raises(ConfigurationError, match=r"microseconds from 0 to 100000, not"):
        limit_of_variable()
