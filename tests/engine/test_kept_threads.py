"""Threads that serve one session after the other: what they forget, and when they end."""

from __future__ import annotations

import asyncio
import contextvars
import ctypes
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable
from queue import SimpleQueue
from typing import Any, ClassVar

import pytest

from openenv_grpc.engine import kept_threads
from openenv_grpc.engine.kept_threads import KeptThread, KeptThreads
from tests.engine.talking import Caller, running
from tests.environments import Countdown

pytestmark = pytest.mark.skipif(sys.version_info >= (3, 13), reason="each thread serves once there")

LIMIT_S = 10

local = threading.local()
variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")


@pytest.fixture
async def threads() -> AsyncIterator[KeptThreads]:
    kept = KeptThreads()
    yield kept
    kept.stop()
    async with asyncio.timeout(LIMIT_S):
        while idle_threads():
            await asyncio.sleep(0.001)


def idle_threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name.startswith("idle thread")]


async def done(threads: KeptThreads, work: Callable[[], Any]) -> Any:
    """Has work done, and waits until its thread waits for more, or has ended."""
    results: SimpleQueue[tuple[threading.Thread, Any]] = SimpleQueue()
    threads.take().serve(lambda: results.put((threading.current_thread(), work())), "openenv test")
    thread, result = await asyncio.to_thread(results.get, timeout=LIMIT_S)
    async with asyncio.timeout(LIMIT_S):
        while thread.is_alive() and thread not in threads._idle:
            await asyncio.sleep(0)
    return result


async def test_a_thread_that_is_done_serves_again_under_another_name(threads: KeptThreads) -> None:
    first = await done(threads, threading.current_thread)
    idle = first in idle_threads()

    second, name = await done(
        threads, lambda: (threading.current_thread(), threading.current_thread().name)
    )

    assert (idle, first is second, name) == (True, True, "openenv test")


async def test_two_that_work_at_once_have_a_thread_each(threads: KeptThreads) -> None:
    gate = threading.Barrier(2)
    seen: SimpleQueue[int] = SimpleQueue()

    def work() -> None:
        gate.wait(LIMIT_S)
        seen.put(threading.get_ident())

    threads.take().serve(work, "openenv one")
    threads.take().serve(work, "openenv other")

    assert seen.get(timeout=LIMIT_S) != seen.get(timeout=LIMIT_S)


async def test_nothing_that_python_keeps_for_a_thread_is_left_for_the_next(
    threads: KeptThreads,
) -> None:
    def leave() -> int:
        local.value = "left"
        variable.set("left")
        asyncio.set_event_loop(asyncio.new_event_loop())
        asyncio.get_event_loop().close()
        return threading.get_ident()

    def find() -> tuple[int, list[str], str, bool]:
        try:
            asyncio.get_event_loop_policy().get_event_loop()
        except RuntimeError:
            no_loop = True
        else:
            no_loop = False
        return threading.get_ident(), list(vars(local)), variable.get("nothing"), no_loop

    first = await done(threads, leave)

    assert await done(threads, find) == (first, [], "nothing", True)


async def test_what_is_forgotten_is_let_go(threads: KeptThreads) -> None:
    gone = threading.Event()

    class Held:
        def __del__(self) -> None:
            gone.set()

    def leave() -> None:
        local.value = Held()

    await done(threads, leave)

    assert gone.is_set()


async def test_a_thread_with_a_loop_that_goes_on_does_not_serve_again(
    threads: KeptThreads,
) -> None:
    def leave() -> None:
        asyncio._set_running_loop(asyncio.get_event_loop_policy().new_event_loop())

    def loop_of_the_thread() -> asyncio.AbstractEventLoop | None:
        return asyncio._get_running_loop()

    def leave_and_tell() -> tuple[threading.Thread, asyncio.AbstractEventLoop]:
        leave()
        found = loop_of_the_thread()
        assert found is not None
        return threading.current_thread(), found

    thread, loop = await done(threads, leave_and_tell)
    loop.close()

    assert not thread.is_alive()
    assert await done(threads, loop_of_the_thread) is None


def trace() -> None:
    sys.settrace(lambda *_: None)


def profile() -> None:
    sys.setprofile(lambda *_: None)


def block_a_signal() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})


def mark_the_thread() -> None:
    vars(threading.current_thread())["mark"] = "left"


@pytest.mark.parametrize("leave", [trace, profile, block_a_signal, mark_the_thread])
async def test_a_thread_for_which_code_has_set_something_does_not_serve_again(
    threads: KeptThreads, leave: Callable[[], None]
) -> None:
    def leave_and_tell() -> threading.Thread:
        leave()
        return threading.current_thread()

    thread = await done(threads, leave_and_tell)

    assert not thread.is_alive()


async def test_a_thread_whose_locals_are_out_of_reach_does_not_serve_again(
    threads: KeptThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    others: dict[str, Any] = {}  # as from Python 3.13 on, where they are kept elsewhere
    monkeypatch.setattr(kept_threads, "_thread_state", lambda: id(others))

    def leave() -> threading.Thread:
        local.value = "left"
        return threading.current_thread()

    thread = await done(threads, leave)

    assert not thread.is_alive()
    assert await done(threads, lambda: list(vars(local))) == []


@pytest.mark.parametrize("taken", [False, True])
async def test_what_somebody_raises_too_late_in_a_thread_that_waits_keeps_nobody_waiting(
    threads: KeptThreads, monkeypatch: pytest.MonkeyPatch, *, taken: bool
) -> None:
    monkeypatch.setattr(kept_threads, "IDLE_S", 3600 if taken else 0.2)
    thread = await done(threads, threading.current_thread)
    ident = ctypes.c_ulong(thread.ident or 0)
    results: SimpleQueue[str] = SimpleQueue()
    again = threads.take() if taken else None

    ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(KeyboardInterrupt))
    if again is None:
        async with asyncio.timeout(LIMIT_S):
            while thread.is_alive():
                await asyncio.sleep(0.001)
        again = threads.take()
    again.serve(lambda: results.put("served"), "openenv test")

    assert (again is thread) is taken
    assert await asyncio.to_thread(results.get, timeout=LIMIT_S) == "served"


async def test_what_a_session_raises_in_its_thread_too_late_harms_no_other(
    threads: KeptThreads,
) -> None:
    thread = await done(threads, threading.current_thread)
    raised = ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit)
    )

    assert raised == 1
    assert [await done(threads, lambda: "served") for _ in range(3)] == ["served"] * 3


async def test_a_thread_that_has_nothing_to_do_for_a_while_ends(
    threads: KeptThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_threads, "IDLE_S", 0.001)
    await done(threads, lambda: None)

    async with asyncio.timeout(LIMIT_S):
        while idle_threads():
            await asyncio.sleep(0.001)

    assert await done(threads, lambda: "again") == "again"


async def test_a_thread_that_is_taken_as_it_is_about_to_end_serves_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    results: SimpleQueue[str] = SimpleQueue()

    class TakenLast(KeptThreads):
        def let_go(self, thread: KeptThread) -> bool:
            if taken:
                taken.pop()
                self.take().serve(lambda: results.put("in time"), "openenv test")
            return super().let_go(thread)

    monkeypatch.setattr(kept_threads, "IDLE_S", 0.2)
    taken = [True]
    threads = TakenLast()
    thread = await done(threads, threading.current_thread)
    assert await asyncio.to_thread(results.get, timeout=LIMIT_S) == "in time"
    await asyncio.to_thread(thread.join, LIMIT_S)  # which has nothing to do again

    assert (thread.is_alive(), threads._idle) == (False, [])
    assert await done(threads, lambda: "served") == "served"
    threads.stop()


async def test_no_more_wait_than_may(threads: KeptThreads, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_threads, "MAX_IDLE", 1)
    monkeypatch.setattr(kept_threads, "IDLE_S", 3600)
    gate, served = threading.Barrier(3), list[threading.Thread]()

    def work() -> None:
        served.append(threading.current_thread())
        gate.wait(LIMIT_S)

    for _ in range(3):
        threads.take().serve(work, "openenv test")

    async with asyncio.timeout(LIMIT_S):
        while len(served) < 3 or sum(each.is_alive() for each in served) > 1:
            await asyncio.sleep(0.001)
    assert sum(each.is_alive() for each in served) == 1


async def test_sessions_of_one_environment_share_threads_and_those_of_others_do_not() -> None:
    threads: dict[str, set[int]] = {"one": set(), "Other": set()}

    class One(Countdown):
        def close(self) -> None:
            threads["one"].add(threading.get_ident())

    class Other(Countdown):
        SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True

        def close(self) -> None:
            threads["Other"].add(threading.get_ident())

    async with running(One, Other) as manager, manager.attach(peer="test") as attachment:
        for name in ("One", "One", "Other"):
            caller = Caller(attachment.open(name))
            await caller.reset()
            await caller.close()
            async with asyncio.timeout(LIMIT_S):
                while [each for each in threading.enumerate() if each.name.startswith("openenv ")]:
                    await asyncio.sleep(0.001)

    assert len(threads["one"]) == 1
    assert threads["one"].isdisjoint(threads["Other"])
    async with asyncio.timeout(LIMIT_S):
        while idle_threads():
            await asyncio.sleep(0.001)
