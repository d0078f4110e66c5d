from __future__ import annotations

import asyncio
import ctypes
import threading
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Any

import pytest

from openenv_grpc.engine.kept_threads import KeptThreads
from openenv_grpc.engine.relay import HELD_RESULTS, HELD_S, LATE_S, Relay
from openenv_grpc.engine.worker import ThreadWorker


def made(relay: Relay, *, name: str) -> ThreadWorker:
    return ThreadWorker(relay, KeptThreads(), name=name)


class CountingLoop:
    """Keeps what is to be called on it."""

    def __init__(self) -> None:
        self.callbacks: list[Callable[[], None]] = []

    def call_soon_threadsafe(self, callback: Callable[[], None]) -> None:
        self.callbacks.append(callback)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def relay_on(loop: Any, clock: Callable[[], float] = monotonic) -> Relay:
    return Relay(loop, clock=clock)


async def ran(worker: ThreadWorker) -> None:
    """Waits for a call on a worker."""
    done = asyncio.get_running_loop().create_future()
    worker.run(nothing, None, lambda *_: done.set_result(None))
    await done


def ignore(*_: Any) -> None:
    pass


def nothing(_: None) -> None:
    pass


def nobody() -> None:
    pass


def test_threads_are_woken_one_at_a_time_in_the_order_in_which_they_joined() -> None:
    relay = relay_on(CountingLoop())
    woken: list[int] = []
    for number in range(3):
        relay.join(partial(woken.append, number))
    assert woken == [0]
    relay.arrive()
    assert woken == [0, 1]
    relay.join(partial(woken.append, 3))
    relay.arrive()
    relay.arrive()
    assert woken == [0, 1, 2, 3]


def test_a_thread_that_joins_when_nobody_is_on_the_way_is_woken_at_once() -> None:
    relay = relay_on(CountingLoop())
    woken: list[int] = []
    for number in range(3):
        relay.join(partial(woken.append, number))
        assert woken == list(range(number + 1))
        relay.arrive()


def test_all_that_wait_are_woken_once_a_thread_is_late() -> None:
    clock = Clock()
    relay = relay_on(CountingLoop(), clock)
    woken: list[int] = []
    for number in range(5):
        relay.join(partial(woken.append, number))
    clock.now += 2 * LATE_S
    relay.arrive()
    assert woken == [0, 1, 2, 3, 4]
    relay.join(partial(woken.append, 5))
    for _ in range(3):
        relay.arrive()
        assert woken == [0, 1, 2, 3, 4]
    relay.arrive()
    assert woken == [0, 1, 2, 3, 4, 5]


def test_a_thread_is_not_late_while_the_loop_still_hands_out_calls() -> None:
    clock = Clock()
    relay = relay_on(CountingLoop(), clock)
    woken: list[int] = []
    for number in range(5):
        relay.join(partial(woken.append, number))
        clock.now += 0.8 * LATE_S
    relay.arrive()
    assert woken == [0, 1]


def test_a_result_wakes_the_loop_at_once_if_no_thread_is_on_the_way() -> None:
    loop = CountingLoop()
    relay = relay_on(loop)
    relay.put(ignore, None, None, begun=monotonic())
    assert len(loop.callbacks) == 1


def test_results_wait_for_the_thread_that_is_on_the_way_and_come_in_one_wake_up() -> None:
    loop, clock = CountingLoop(), Clock()
    relay = relay_on(loop, clock)
    delivered: list[int] = []
    relay.join(nobody)
    for number in range(3):
        relay.put(lambda argument, _: delivered.append(argument), number, None, begun=clock.now)
    assert loop.callbacks == []
    relay.arrive()
    relay.put(lambda argument, _: delivered.append(argument), 3, None, begun=clock.now)
    [deliver] = loop.callbacks
    deliver()
    assert delivered == [0, 1, 2, 3]
    relay.put(lambda argument, _: delivered.append(argument), 4, None, begun=clock.now)
    assert len(loop.callbacks) == 2


def test_no_more_than_so_many_results_wait() -> None:
    loop, clock = CountingLoop(), Clock()
    relay = relay_on(loop, clock)
    relay.join(nobody)
    for _ in range(HELD_RESULTS - 1):
        relay.put(ignore, None, None, begun=clock.now)
    assert loop.callbacks == []
    relay.put(ignore, None, None, begun=clock.now)
    assert len(loop.callbacks) == 1


def test_the_result_of_a_long_call_does_not_wait() -> None:
    loop, clock = CountingLoop(), Clock()
    relay = relay_on(loop, clock)
    relay.join(nobody)
    relay.put(ignore, None, None, begun=clock.now)
    assert loop.callbacks == []
    relay.put(ignore, None, None, begun=clock.now - 2 * HELD_S)
    assert len(loop.callbacks) == 1


def test_a_result_that_has_waited_for_long_goes_when_the_next_thread_arrives() -> None:
    loop, clock = CountingLoop(), Clock()
    relay = relay_on(loop, clock)
    for _ in range(3):
        relay.join(nobody)
    relay.put(ignore, None, None, begun=clock.now)
    relay.arrive()
    assert loop.callbacks == []
    clock.now += 2 * HELD_S
    relay.arrive()
    assert len(loop.callbacks) == 1


def test_a_result_for_a_closed_loop_is_dropped() -> None:
    loop = asyncio.new_event_loop()
    relay = Relay(loop)
    loop.close()
    relay.put(ignore, None, None, begun=monotonic())


def test_what_a_delivery_raises_keeps_no_other_result_from_the_loop() -> None:
    raised: list[BaseException] = []
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda _, context: raised.append(context["exception"]))
    relay = Relay(loop)
    relay.join(nobody)

    def fail(_: None, error: BaseException) -> None:
        raise error

    relay.put(fail, None, ValueError(), begun=monotonic())
    relay.put(lambda *_: loop.stop(), None, None, begun=monotonic())
    relay.arrive()
    loop.run_forever()
    loop.close()
    assert [type(error) for error in raised] == [ValueError]


async def test_calls_that_block_hold_up_nobody_even_if_all_threads_but_one_block() -> None:
    loop = asyncio.get_running_loop()
    relay = Relay(loop)
    workers = [made(relay, name=f"openenv test {number}") for number in range(20)]
    go_on = threading.Event()
    all_back = loop.create_future()
    back: list[int] = []

    def finished(number: int, _: None) -> None:
        back.append(number)
        if len(back) == len(workers):
            all_back.set_result(None)

    last = loop.create_future()
    for number, worker in enumerate(workers[:-1]):
        worker.run(lambda _: go_on.wait(), number, finished)
    workers[-1].run(nothing, None, lambda *_: last.set_result(None))
    async with asyncio.timeout(30):
        await last
    assert back == []
    workers[-1].run(nothing, len(workers) - 1, finished)
    go_on.set()
    async with asyncio.timeout(30):
        await all_back
    for worker in workers:
        worker.stop()
    for worker in workers:
        worker.join(30)
        assert worker.ended


async def test_what_comes_in_while_a_call_runs_waits_for_that_thread_alone() -> None:
    loop = asyncio.get_running_loop()
    relay = Relay(loop)
    blocked, free = (made(relay, name=f"openenv test {name}") for name in "ab")
    began, go_on = threading.Event(), threading.Event()
    order: list[str] = []

    def block(_: None) -> None:
        began.set()
        go_on.wait()

    ended = loop.create_future()
    blocked.run(block, None, lambda *_: order.append("blocked"))
    await asyncio.to_thread(began.wait, 30)
    blocked.run(nothing, None, lambda *_: order.append("behind it"))
    blocked.stop()
    for number in range(50):
        done = loop.create_future()
        free.run(nothing, None, lambda *_, done=done: done.set_result(None))
        async with asyncio.timeout(30):
            await done
        order.append(str(number))
    go_on.set()
    free.run(nothing, None, lambda *_: ended.set_result(None))
    free.stop()
    async with asyncio.timeout(30):
        await ended
        await asyncio.to_thread(blocked.join, 30)
        while "behind it" not in order:
            await asyncio.sleep(0)
    assert [each for each in order if each.isdecimal()] == [str(number) for number in range(50)]
    assert order[-2:] == ["blocked", "behind it"]
    free.join(30)


async def test_threads_that_all_have_much_to_do_take_turns() -> None:
    loop = asyncio.get_running_loop()
    relay = Relay(loop)
    rounds = 30
    workers = [made(relay, name=f"openenv test {number}") for number in range(8)]
    ran: list[int] = []
    ended = loop.create_future()

    def again(number: int, _: None) -> None:
        if ran.count(number) < rounds:
            workers[number].run(ran.append, number, again)
        elif len(ran) == rounds * len(workers):
            ended.set_result(None)

    for number, worker in enumerate(workers):
        worker.run(ran.append, number, again)
    async with asyncio.timeout(60):
        await ended
    first_done = min(len(ran) - 1 - ran[::-1].index(number) for number in range(len(workers)))
    counts = [ran[: first_done + 1].count(number) for number in range(len(workers))]
    assert min(counts) > rounds // 10
    for worker in workers:
        worker.stop()
        worker.join(30)


@pytest.mark.parametrize("sessions", [2, 40])
async def test_no_call_is_lost_however_results_and_calls_meet(sessions: int) -> None:
    loop = asyncio.get_running_loop()
    relay = Relay(loop)
    workers = [made(relay, name=f"openenv test {number}") for number in range(sessions)]
    left = dict.fromkeys(range(sessions), 100)
    ended = loop.create_future()

    def again(number: int, result: int) -> None:
        assert result == left[number]
        left[number] -= 1
        if left[number]:
            workers[number].run(left.__getitem__, number, again)
            if left[number] % 7 == number % 7:  # a second one, at the same thread
                workers[number].run(nothing, None, ignore)
        elif not any(left.values()):
            ended.set_result(None)

    for number, worker in enumerate(workers):
        worker.run(left.__getitem__, number, again)
    async with asyncio.timeout(60):
        await ended
    for worker in workers:
        worker.stop()
    for worker in workers:
        worker.join(30)
        assert worker.ended


async def test_the_death_of_a_thread_that_is_on_the_way_is_its_own_affair(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dead = threading.Event()
    monkeypatch.setattr(threading, "excepthook", lambda _: dead.set())
    loop = asyncio.get_running_loop()
    relay = Relay(loop)
    dying, other = (made(relay, name=f"openenv test {name}") for name in "ab")
    told = loop.create_future()
    dying.run(lambda _: threading.get_ident(), None, lambda _, thread: told.set_result(thread))
    async with asyncio.timeout(30):
        thread = await told
        for _ in range(20):  # meanwhile that one falls asleep
            await ran(other)
    raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
    assert raise_in(ctypes.c_ulong(thread), ctypes.py_object(SystemExit)) == 1
    dying.run(nothing, None, ignore)
    async with asyncio.timeout(30):
        await ran(other)
    assert await asyncio.to_thread(dead.wait, 30)
    dying.join(30)
    assert dying.ended
    other.stop()
    other.join(30)


async def test_a_worker_without_a_thread_that_is_stopped_is_waited_for_by_nobody() -> None:
    loop = asyncio.get_running_loop()
    relay = Relay(loop)
    made(relay, name="openenv test unused").stop()
    worker = made(relay, name="openenv test")
    async with asyncio.timeout(30):
        await ran(worker)
    worker.stop()
    worker.join(30)


async def test_a_thread_that_the_system_refuses_is_waited_for_by_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = asyncio.get_running_loop()
    relay = Relay(loop)

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    refused = made(relay, name="openenv test refused")
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        told = loop.create_future()
        refused.run(nothing, None, lambda _, error: told.set_result(error))
        async with asyncio.timeout(30):
            assert str(await told) == "can't start new thread"
    refused.stop()
    assert refused.ended
    worker = made(relay, name="openenv test")
    async with asyncio.timeout(30):
        await ran(worker)
    worker.stop()
    worker.join(30)
