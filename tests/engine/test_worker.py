from __future__ import annotations

import asyncio
import threading
import weakref

import pytest

from openenv_grpc.engine.inline import InlineWorker
from openenv_grpc.engine.kept_threads import KeptThread, KeptThreads
from openenv_grpc.engine.relay import Relay
from openenv_grpc.engine.worker import ThreadWorker
from openenv_grpc.errors import EnvironmentFactoryError
from tests.engine.talking import Caller, running
from tests.environments import Countdown


async def test_calls_run_in_order_on_one_thread_and_results_come_back_to_the_loop() -> None:
    loop = asyncio.get_running_loop()
    worker = ThreadWorker(Relay(loop), KeptThreads(), name="openenv test")
    results: list[tuple[int, int]] = []
    done = loop.create_future()

    def call(number: int) -> int:
        assert threading.current_thread().name == "openenv test"
        return number * 2

    def finished(number: int, result: int) -> None:
        assert threading.current_thread() is threading.main_thread()
        results.append((number, result))
        if number == 9:
            done.set_result(None)

    for number in range(10):
        worker.run(call, number, finished)
    async with asyncio.timeout(5):
        await done
    assert results == [(number, number * 2) for number in range(10)]
    worker.stop()
    worker.join(5)
    assert worker.ended


async def test_a_thread_is_started_by_its_first_call_only() -> None:
    before = threading.active_count()
    worker = ThreadWorker(Relay(asyncio.get_running_loop()), KeptThreads(), name="openenv test")
    assert worker.ended
    worker.stop()
    assert threading.active_count() == before


async def test_whatever_a_call_raises_is_its_result_and_the_thread_goes_on() -> None:
    loop = asyncio.get_running_loop()
    worker = ThreadWorker(Relay(loop), KeptThreads(), name="openenv test")
    for error in (ValueError(), SystemExit(), KeyboardInterrupt(), GeneratorExit()):

        def fail(error: BaseException) -> None:
            raise error

        for each in (worker, InlineWorker("test")):
            done = loop.create_future()
            each.run(fail, error, lambda _, result, done=done: done.set_result(result))
            async with asyncio.timeout(5):
                assert await done is error
    worker.stop()
    worker.join(5)


async def test_a_waiting_thread_holds_on_to_no_earlier_call() -> None:
    class Argument:
        pass

    loop = asyncio.get_running_loop()
    worker = ThreadWorker(Relay(loop), KeptThreads(), name="openenv test")
    done = loop.create_future()
    argument = Argument()
    gone = weakref.ref(argument)
    worker.run(lambda _: None, argument, lambda _, __: done.set_result(None))
    del argument
    async with asyncio.timeout(5):
        await done
        while gone() is not None:
            await asyncio.sleep(0)
    worker.stop()
    worker.join(5)


async def test_where_the_system_gives_no_thread_the_call_is_told_and_the_next_tries_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = asyncio.get_running_loop()
    worker = ThreadWorker(Relay(loop), KeptThreads(), name="openenv test")
    refusal = RuntimeError("can't start new thread")

    def double(number: int) -> int:
        return number * 2

    def refuse(_: threading.Thread) -> None:
        raise refusal

    for refused, expected in ((True, refusal), (False, 8)):
        done = loop.create_future()
        with monkeypatch.context() as patched:
            if refused:
                patched.setattr(KeptThread, "start", refuse)
            worker.run(double, 4, lambda _, result, done=done: done.set_result(result))
        async with asyncio.timeout(5):
            assert await done == expected
    worker.stop()
    worker.join(5)
    assert worker.ended


async def test_a_session_for_which_there_is_no_thread_is_not_built_and_the_next_one_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async with running(Countdown) as manager, manager.attach(peer="test") as attachment:
        with monkeypatch.context() as patched:
            patched.setattr(KeptThread, "start", refuse)
            with pytest.raises(EnvironmentFactoryError, match="can't start new thread"):
                await Caller(attachment.open("Countdown")).reset()
        caller = Caller(attachment.open("Countdown"))
        await caller.reset()
        await caller.close()
