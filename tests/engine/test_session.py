from __future__ import annotations

import asyncio
import gc
import logging
import random
import threading
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import pytest

from openenv_grpc.engine import EngineSettings
from openenv_grpc.errors import (
    DeadlineExceededError,
    Effect,
    EnvironmentCrashedError,
    EnvironmentFactoryError,
    EnvironmentFailedError,
    EpisodeNotStartedError,
    EpisodeOverError,
    InvalidActionError,
    InvalidRequestError,
    ModeForbidsError,
    NotSupportedError,
    OpenEnvError,
    SessionClosedError,
    UnserializableResultError,
)
from openenv_grpc.operations import Kind, TaskQuery
from openenv_grpc.sessions import CancelEffect, SessionState
from openenv_grpc.types import ServerMode
from tests.engine.talking import (
    Caller,
    JsonCodec,
    ManualClock,
    opened,
    reason,
    received,
    running,
    send,
)
from tests.environments import (
    AsyncCountdown,
    AsyncSlow,
    BadClose,
    Count,
    Countdown,
    Counted,
    Failing,
    Gates,
    InlineCountdown,
    NotBuilt,
    OwnBooks,
    SharedCountdown,
    Slow,
    Strict,
)

EVERYWHERE = pytest.mark.parametrize(
    "factory",
    [Countdown, SharedCountdown, InlineCountdown, AsyncCountdown],
    ids=["thread", "shared", "inline", "async"],
)


async def entered(gates: Gates) -> None:
    assert await asyncio.to_thread(gates.entered.wait, 5)


@asynccontextmanager
async def held(
    slow: Callable[[Gates], Any] = Slow, **options: Any
) -> AsyncIterator[tuple[Caller, Gates, asyncio.Future[Any]]]:
    """A session whose first step runs until its gates open."""
    gates = Gates()
    async with opened(lambda: slow(gates), **options) as caller:
        await caller.reset()
        step = caller.send(Kind.STEP, {"text": "wait"})
        await entered(gates)
        try:
            yield caller, gates, step
        finally:
            gates.leave.set()


# One after the other


@EVERYWHERE
async def test_an_episode_runs_from_reset_to_close(factory: type[Countdown]) -> None:
    async with opened(factory) as caller:
        assert (await caller.reset(start=2))["left"] == 2
        first = await caller.step("a")
        second = await caller.step("b")
        assert (first["text"], first["left"], first["done"]) == ("a", 1, False)
        assert (second["reward"], second["done"], second["truncated"]) == (1.0, True, False)
        assert (await caller.do(Kind.STATE))["step_count"] == 2
        assert await caller.close() == {"step_count": 2}


@EVERYWHERE
async def test_operations_run_in_the_order_in_which_they_came(factory: type[Countdown]) -> None:
    async with opened(factory) as caller:
        texts: list[bytes] = []
        for number in range(8):
            operation = caller.operation(Kind.STEP, {"text": f"step {number}"})
            caller.session.submit(operation, lambda reply: texts.append(reply.content))
        last = await caller.step()
        assert last["left"] == -9
        assert [f"step {number}".encode() in text for number, text in enumerate(texts)] == [
            True
        ] * 8


async def test_construction_reset_step_state_and_close_run_on_one_thread() -> None:
    threads: list[threading.Thread] = []

    class Watched(Countdown):
        def __init__(self) -> None:
            super().__init__()
            threads.append(threading.current_thread())

        def reset(
            self, seed: int | None = None, episode_id: str | None = None, start: int = 3
        ) -> Counted:
            threads.append(threading.current_thread())
            return super().reset(seed, episode_id, start)

        def step(self, action: Count, timeout_s: float | None = None) -> Counted:
            threads.append(threading.current_thread())
            return super().step(action, timeout_s)

        @property
        def state(self) -> Any:
            threads.append(threading.current_thread())
            return super().state

        def close(self) -> None:
            threads.append(threading.current_thread())

    async with opened(Watched) as caller:
        await caller.reset()
        await caller.step()
        await caller.do(Kind.STATE)
        await caller.close()
    assert len(threads) == 6  # the state is read once more, for the episode's name
    assert set(threads) == {threads[0]}
    assert threads[0] is not threading.main_thread()


async def test_nothing_is_built_before_the_first_operation() -> None:
    built: list[Countdown] = []

    def build() -> Countdown:
        built.append(Countdown())
        return built[0]

    before = threading.active_count()
    async with opened(build) as caller:
        assert (built, threading.active_count()) == ([], before)
        assert caller.session.info().state is SessionState.OPENING
        await caller.reset()
        assert len(built) == 1


async def test_a_session_that_is_closed_first_builds_nothing() -> None:
    async with opened(NotBuilt) as caller:
        assert await caller.close() == {"step_count": 0}


async def test_an_open_operation_builds_and_is_answered_with_the_session() -> None:
    async with running(Countdown) as manager, manager.attach(peer="test") as attachment:
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        operation = Caller(None).operation(Kind.OPEN, request_id=1)  # type: ignore[arg-type]
        session = attachment.open("", operation=operation, deliver=reply.set_result)
        assert session.id.encode() in (await received(reply)).content
        assert session.last_request_id == 1
        with pytest.raises(InvalidRequestError):
            await Caller(session).do(Kind.OPEN)


@EVERYWHERE
async def test_steps_before_a_reset_and_after_the_end_reach_the_environment(
    factory: type[Countdown],
) -> None:
    async with opened(factory) as caller:
        assert (await caller.step())["left"] == -1
        assert (await caller.step())["left"] == -2


async def test_a_class_may_ask_for_resets() -> None:
    async with opened(Strict) as caller:
        with pytest.raises(EpisodeNotStartedError):
            await caller.step()
        await caller.reset(start=1)
        await caller.step()
        with pytest.raises(EpisodeOverError):
            await caller.step()
        await caller.reset(start=1)
        await caller.step()


async def test_the_deliverer_may_submit_the_next_operation() -> None:
    async with opened(InlineCountdown) as caller:
        done = asyncio.get_running_loop().create_future()
        left = 200

        def next_step(_: object) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                done.set_result(None)
            else:
                caller.session.submit(caller.operation(Kind.STEP, {}), next_step)

        caller.session.submit(caller.operation(Kind.RESET), next_step)
        async with asyncio.timeout(5):
            await done


async def test_a_deliverer_that_fails_stops_neither_its_session_nor_others() -> None:
    async with running(Countdown) as manager, manager.attach(peer="test") as attachment:
        loop = asyncio.get_running_loop()
        reported: list[Any] = []
        loop.set_exception_handler(lambda _, context: reported.append(context["exception"]))
        callers = [Caller(attachment.open("")) for _ in range(3)]
        for caller in callers:
            caller.session.submit(caller.operation(Kind.RESET), lambda _: {}["no such key"])
        for caller in callers:
            assert (await caller.step())["left"] == 2
        loop.set_exception_handler(None)
        assert [type(error) for error in reported] == [KeyError] * 3


# Keywords


async def test_unknown_keywords_are_dropped_unless_the_codec_is_strict() -> None:
    async with opened(Countdown) as caller:
        assert (await caller.reset(start=5, junk=1))["left"] == 5
        strict = Caller(caller.session, codec=JsonCodec(strict=True))
        with pytest.raises(InvalidRequestError) as caught:
            await strict.reset(start=5, junk=1)
        assert "'junk'" in caught.value.message
        assert "episode_id, seed, start" in caught.value.message
        with pytest.raises(InvalidRequestError, match="'speed' of step"):
            await strict.do(Kind.STEP, {"keywords": {"speed": 2}})


async def test_a_method_that_takes_any_keyword_gets_all() -> None:
    async with opened(OwnBooks, codec=JsonCodec(strict=True)) as caller:
        assert (await caller.reset(seed=1, level=2, junk=3))["text"] == "['junk', 'level']"
        assert (await caller.do(Kind.STEP, {"keywords": {"speed": 2}}))["text"] == "['speed']"


@pytest.mark.parametrize("name", ["self", "action", "target"])
async def test_a_keyword_named_as_what_a_method_is_given_does_no_harm(name: str) -> None:
    class Anything(OwnBooks):
        def reset(self, **kwargs: Any) -> Counted:
            return Counted(text=str(sorted(kwargs)))

    async with opened(Anything) as caller:
        reset = await caller.do(Kind.RESET, {name: 1})
        assert reset["text"] == str([] if name == "self" else [name])
        step = await caller.do(Kind.STEP, {"keywords": {name: 1}})
        assert step["text"] == str(["target"] if name == "target" else [])


async def test_seed_and_episode_id_are_never_unknown() -> None:
    class Simple(Countdown):
        def reset(self) -> Counted:  # type: ignore[override]  # as an author may write it
            return Counted(text=str(self.rng.randrange(1000)))

    async with opened(Simple, codec=JsonCodec(strict=True)) as caller:
        first = await caller.reset(seed=4, episode_id="mine")
        assert first["episode_id"] == "mine"
        assert (await caller.reset(seed=4))["text"] == first["text"]


async def test_a_step_is_handed_the_operations_timeout() -> None:
    async with opened(OwnBooks) as caller:
        assert (await caller.step(timeout_s=7))["left"] == 7
        assert (await caller.step())["left"] == 0
        sent = await caller.do(Kind.STEP, {"keywords": {"timeout_s": 9}}, timeout_s=7)
        assert sent["left"] == 9


# Books


@EVERYWHERE
async def test_the_engine_keeps_episode_and_steps(factory: type[Countdown]) -> None:
    async with opened(factory) as caller:
        first = await caller.reset()
        second = await caller.reset(episode_id="mine")
        assert len(first["episode_id"]) == 36
        assert second["episode_id"] == "mine"
        await caller.step()
        state = await caller.do(Kind.STATE)
        assert state == {
            "state": {"episode_id": "mine", "step_count": 1},
            "episode_id": "mine",
            "step_count": 1,
        }


async def test_the_seed_decides_what_is_drawn() -> None:
    async with opened(Countdown) as caller:
        draws = [(await caller.reset(seed=seed))["text"] for seed in (1, 2, 1)]
        assert draws[0] == draws[2] != draws[1]
        unseeded = {(await caller.reset())["text"] for _ in range(8)}
        assert len(unseeded) > 1


async def test_a_class_that_keeps_its_own_books_is_left_alone() -> None:
    async with opened(OwnBooks) as caller:
        assert (await caller.reset())["episode_id"] == "mine"
        await caller.step()
        assert (await caller.do(Kind.STATE))["step_count"] == 10
        assert caller.session.info().step_count == 1


async def test_an_environment_of_any_class_is_served() -> None:
    class Foreign:
        def reset(self) -> Any:
            return Counted(left=1)

        def step(self, action: Any) -> Any:
            return Counted(text=action.text)

    async with opened(Foreign) as caller:
        assert (await caller.reset())["left"] == 1
        assert (await caller.step("a"))["text"] == "a"
        assert (await caller.do(Kind.STATE))["step_count"] == 1


async def test_plain_coroutine_methods_are_awaited() -> None:
    class Awaited:
        SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True
        closed: ClassVar[list[bool]] = []

        async def reset(self, seed: int | None = None) -> Any:
            await asyncio.sleep(0)
            return Counted(left=seed or 0)

        async def step(self, action: Any) -> Any:
            await asyncio.sleep(0)
            return Counted(text=action.text)

        async def close(self) -> None:
            await asyncio.sleep(0)
            self.closed.append(True)

    async with opened(Awaited) as caller:
        assert (await caller.reset(seed=3))["left"] == 3
        assert (await caller.step("a"))["text"] == "a"
    assert Awaited.closed == [True]


# What goes wrong


@pytest.mark.parametrize(
    ("text", "message"),
    [("value", "ValueError: no such move"), ("validation", "ValidationError: 1 validation error")],
)
async def test_an_exception_of_the_environment_is_told_and_logged_once(
    text: str, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(Failing) as caller:
        await caller.reset()
        with pytest.raises(EnvironmentFailedError) as caught:
            await caller.step(text)
        assert caught.value.message.startswith(message)
        assert caught.value.effect is Effect.UNKNOWN
        assert not caught.value.session_lost
        assert caught.value.metadata["environment"] == "Failing"
        assert caught.value.metadata["exception_type"] in message
        assert message.endswith(caught.value.metadata["exception_text"].split(" for ")[0])
        assert caught.value.__cause__ is not None
        assert (await caller.step())["left"] == 2
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert caller.session.id in record.getMessage()
    assert record.exc_info


async def test_errors_are_redacted_where_that_is_asked_for() -> None:
    async with opened(Failing, settings=EngineSettings(redact_errors=True)) as caller:
        with pytest.raises(EnvironmentFailedError) as caught:
            await caller.step("value")
        assert "no such move" not in caught.value.message
        assert caught.value.metadata == {"environment": "Failing"}


async def test_an_exception_without_a_text_is_told_all_the_same() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    class Mutes(Countdown):
        def step(self, action: Count, timeout_s: float | None = None) -> Counted:
            raise Mute

    async with opened(Mutes) as caller:
        await caller.reset()
        with pytest.raises(EnvironmentFailedError, match=r"^Mute: "):
            await caller.step()


async def test_a_wrong_action_is_the_clients_mistake_and_takes_no_effect() -> None:
    async with opened(Countdown) as caller:
        await caller.reset()
        with pytest.raises(InvalidActionError) as caught:
            await caller.do(Kind.STEP, {"by": "many"})
        assert caught.value.effect is Effect.NONE
        assert (await caller.step())["left"] == 2


async def test_a_validator_that_raises_anything_does_not_end_the_session() -> None:
    class Fussy(Count):
        def model_post_init(self, context: Any) -> None:
            raise KeyError("text")

    async with opened(Countdown, action_type=Fussy) as caller:
        with pytest.raises(EnvironmentFailedError) as caught:
            await caller.step()
        assert caught.value.effect is Effect.NONE
        await caller.reset()


async def test_a_result_that_is_no_observation_has_happened_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with opened(Failing) as caller:
        await caller.reset()
        with pytest.raises(UnserializableResultError) as caught:
            await caller.step("dictionary")
        assert caught.value.effect is Effect.DONE
        assert "returned a value of type dict" in caught.value.message
        assert "reset and step return an Observation" in caught.value.message
        (logged,) = [each for each in caplog.messages if "cannot be sent" in each]
        assert f"session_id={caller.session.id}" in logged
        assert "operation=step type=dict" in logged
        assert (await caller.do(Kind.STATE))["step_count"] == 1


async def test_a_state_that_fails_is_an_error_of_the_environment() -> None:
    async with opened(Failing) as caller:
        await caller.reset()
        await caller.step("state")
        with pytest.raises(EnvironmentFailedError, match="no state"):
            await caller.do(Kind.STATE)
        assert (await caller.reset())["left"] == 3


class AsyncFailing(Failing, AsyncCountdown):
    async def step_async(
        self, action: Count, timeout_s: float | None = None, **kwargs: Any
    ) -> Counted:
        await asyncio.sleep(0)
        return Failing.step(self, action, timeout_s)


class InlineFailing(Failing):
    ISOLATION: ClassVar[str] = "inline"


@pytest.mark.parametrize("factory", [Failing, InlineFailing, AsyncFailing])
@pytest.mark.parametrize("text", ["exit", "interrupt", "generator"])
async def test_what_would_end_a_program_ends_the_session_alone(
    factory: type[Failing], text: str
) -> None:
    async with running(factory) as manager, manager.attach(peer="test") as attachment:
        caller, other = Caller(attachment.open("")), Caller(attachment.open(""))
        await other.reset()
        step = caller.send(Kind.STEP, {"text": text})
        behind = caller.send(Kind.STEP, {})
        with pytest.raises(EnvironmentCrashedError) as caught:
            raise (await received(step)).error or AssertionError
        assert caught.value.session_lost
        error = (await received(behind)).error
        assert error is not None
        assert (error.session_lost, error.effect) == (True, Effect.NONE)
        assert (await other.step())["left"] == 2
        assert [info.session_id for info in manager.sessions()][-1] == other.session.id


async def test_a_constructor_that_fails_is_told_to_open_and_frees_the_slot(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running(NotBuilt, max_sessions=1) as manager:
        async with manager.attach(peer="test") as attachment:
            for _ in range(3):
                reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
                operation = Caller(None).operation(Kind.OPEN, request_id=1)  # type: ignore[arg-type]
                session = attachment.open("", operation=operation, deliver=reply.set_result)
                behind = Caller(session).send(Kind.RESET)
                error = (await received(reply)).error
                assert isinstance(error, EnvironmentFactoryError)
                assert error.message == (
                    "Environment factory 'NotBuilt' failed to create instance: "
                    "RuntimeError: no engine"
                )
                assert error.metadata == {"factory_name": "NotBuilt"}
                assert error.session_lost
                assert isinstance(error.__cause__, RuntimeError)
                assert await reason(behind) == "CONSTRUCTION_FAILED"
        assert manager.sessions() == []
    assert len([record for record in caplog.records if record.levelno >= logging.WARNING]) == 3


async def test_why_a_constructor_failed_is_kept_from_clients_if_errors_are_redacted() -> None:
    async with opened(NotBuilt, settings=EngineSettings(redact_errors=True)) as caller:
        with pytest.raises(EnvironmentFactoryError) as caught:
            await caller.reset()
    assert "no engine" not in caught.value.message
    assert "the server's log tells how" in caught.value.message


async def test_without_an_open_operation_every_later_one_is_told_that_construction_failed() -> None:
    lost: list[OpenEnvError] = []
    async with running(NotBuilt) as manager, manager.attach(peer="test") as attachment:
        session = attachment.open("", on_lost=lambda _, error: lost.append(error))
        caller = Caller(session)
        first, second = caller.send(Kind.RESET), caller.send(Kind.STEP, {})
        assert await reason(first) == "CONSTRUCTION_FAILED"
        assert await reason(second) == "CONSTRUCTION_FAILED"
        with pytest.raises(EnvironmentFactoryError) as caught:
            await caller.step()
        assert caught.value.session_lost
    assert lost == []


async def test_a_factory_that_builds_no_environment_fails_like_a_constructor() -> None:
    async with opened(lambda: object()) as caller:
        with pytest.raises(EnvironmentFactoryError) as caught:
            await caller.reset()
        assert isinstance(caught.value.__cause__, TypeError)


# Limits


async def test_operations_past_the_limit_are_refused_and_use_up_no_number() -> None:
    settings = EngineSettings(max_operations_per_session=3)
    async with held(settings=settings) as (caller, gates, step):
        waiting = [caller.send(Kind.STEP, {}, request_id=0) for _ in range(2)]
        refused = caller.send(Kind.STEP, {}, request_id=0)
        error = (await received(refused)).error
        assert error is not None
        assert (error.reason.name, error.effect) == ("TOO_MANY_OPERATIONS", Effect.NONE)
        assert caller.session.last_request_id == 2
        gates.leave.set()
        assert not any([(await received(reply)).error for reply in (step, *waiting)])
        await caller.step()


@pytest.mark.parametrize("kind", [Kind.RESET, Kind.STEP, Kind.STATE, Kind.EVALUATE])
async def test_production_mode_refuses_what_trainers_do(kind: Kind) -> None:
    async with opened(Countdown, mode=ServerMode.PRODUCTION) as caller:
        with pytest.raises(ModeForbidsError, match="production"):
            await caller.do(kind, {})
        await caller.close()


# Numbers


async def test_a_repeat_is_answered_from_the_record_and_not_run_again() -> None:
    async with opened(Countdown) as caller:
        await caller.do(Kind.RESET, {}, request_id=1, digest=b"reset")
        first = await caller.ask(Kind.STEP, {}, request_id=2, digest=b"step")
        again = await caller.ask(Kind.STEP, {}, request_id=2, digest=b"step")
        assert again.content == first.content
        assert (await caller.do(Kind.STATE, request_id=3))["step_count"] == 1


async def test_a_repeat_of_what_runs_is_answered_when_that_ends() -> None:
    gates = Gates()
    async with opened(lambda: Slow(gates)) as caller:
        first = caller.send(Kind.STEP, {"text": "wait"}, request_id=1, digest=b"x")
        await entered(gates)
        again = caller.send(Kind.STEP, {"text": "wait"}, request_id=1, digest=b"x")
        withdrawn = caller.operation(Kind.STEP, {"text": "wait"}, request_id=1, digest=b"x")
        taken_back = send(caller.session, withdrawn)
        assert caller.session.cancel_operation(withdrawn) is CancelEffect.DROPPED
        assert await reason(taken_back) == "CANCELLED"
        assert not again.done()
        gates.leave.set()
        assert (await received(again)).content == (await received(first)).content
        assert (await caller.do(Kind.STATE))["step_count"] == 1


async def test_numbers_that_do_not_follow_are_refused_and_use_up_nothing() -> None:
    async with opened(Countdown) as caller:
        await caller.do(Kind.RESET, {}, request_id=1, digest=b"a")
        assert await reason(caller.send(Kind.STEP, {}, request_id=3)) == "OUT_OF_ORDER"
        conflict = caller.send(Kind.STEP, {}, request_id=1, digest=b"b")
        assert await reason(conflict) == "REQUEST_CONFLICT"
        caller.session.acknowledge(1)
        forgotten = caller.send(Kind.RESET, {}, request_id=1, digest=b"a")
        assert await reason(forgotten) == "OUTCOME_FORGOTTEN"
        await caller.do(Kind.STEP, {}, request_id=2)


async def test_the_session_numbers_what_has_no_number() -> None:
    async with opened(Countdown) as caller:
        operation = caller.operation(Kind.RESET, {}, request_id=0)
        await received(send(caller.session, operation))
        assert operation.request_id == 1
        await caller.do(Kind.STATE)
        assert caller.session.last_request_id == 1


async def test_a_repeated_close_is_answered_after_the_session_has_ended() -> None:
    async with opened(Countdown) as caller:
        await caller.do(Kind.RESET, {}, request_id=1)
        first = await caller.ask(Kind.CLOSE, request_id=2)
        again = await caller.ask(Kind.CLOSE, request_id=2)
        assert (again.content, again.error) == (first.content, None)
        assert await reason(caller.send(Kind.STEP, {}, request_id=3)) == "SESSION_CLOSED"


# Deadlines


async def test_an_operation_whose_time_has_passed_is_not_started() -> None:
    async with opened(Countdown) as caller:
        for timeout_s in (0, -1.0, float("nan")):
            with pytest.raises(DeadlineExceededError) as caught:
                await caller.step(timeout_s=timeout_s)
            assert caught.value.effect is Effect.NONE
        assert (await caller.do(Kind.STATE))["step_count"] == 0


async def test_a_deadline_that_passes_in_the_queue_drops_the_operation() -> None:
    clock = ManualClock()
    async with held(clock=clock) as (caller, gates, step):
        queued = caller.send(Kind.STEP, {}, timeout_s=2.0)
        clock.advance(1.9)
        assert not queued.done()
        clock.advance(0.2)
        error = (await received(queued)).error
        assert isinstance(error, DeadlineExceededError)
        assert error.effect is Effect.NONE
        gates.leave.set()
        await received(step)
        assert (await caller.do(Kind.STATE))["step_count"] == 1


async def test_a_deadline_that_passes_on_a_thread_is_told_at_once_and_the_next_waits() -> None:
    clock, gates = ManualClock(), Gates()
    async with opened(lambda: Slow(gates), clock=clock) as caller:
        await caller.reset()
        step = caller.send(Kind.STEP, {"text": "wait"}, timeout_s=2.0)
        await entered(gates)
        clock.advance(2)
        error = (await received(step)).error
        assert isinstance(error, DeadlineExceededError)
        assert error.effect is Effect.UNKNOWN
        after = caller.send(Kind.STATE)
        assert not after.done()
        gates.leave.set()
        assert b'"step_count":1' in (await received(after)).content
        clock.advance(100)
        assert (await caller.step())["left"] == 1


async def test_a_call_that_runs_on_past_its_grace_loses_the_session_and_is_counted() -> None:
    clock, gates = ManualClock(), Gates()
    settings = EngineSettings(stuck_grace_s=10)
    async with running(lambda: Slow(gates), clock=clock, settings=settings) as manager:
        async with manager.attach(peer="test") as attachment:
            caller = Caller(attachment.open(""))
            step = caller.send(Kind.STEP, {"text": "wait"}, timeout_s=2.0)
            await entered(gates)
            clock.advance(2)
            await received(step)
            behind = caller.send(Kind.STEP, {})
            clock.advance(10)
            error = (await received(behind)).error
            assert isinstance(error, EnvironmentCrashedError)
            assert (error.session_lost, error.effect) == (True, Effect.NONE)
        assert manager.sessions() == []
        assert (manager.stuck_threads, gates.closed) == (1, 0)
        gates.leave.set()
        async with asyncio.timeout(5):
            while manager.stuck_threads:
                await asyncio.sleep(0)
        assert gates.closed == 1


async def test_a_deadline_that_passes_on_the_loop_cancels_the_step() -> None:
    clock, gates = ManualClock(), Gates()
    async with opened(lambda: AsyncSlow(gates), clock=clock) as caller:
        await caller.reset()
        step = caller.send(Kind.STEP, {"text": "wait"}, timeout_s=2.0)
        await entered(gates)
        clock.advance(2)
        error = (await received(step)).error
        assert isinstance(error, DeadlineExceededError)
        assert error.effect is Effect.UNKNOWN
        assert (await caller.step())["left"] == 2
    assert gates.closed == 1


async def test_a_step_that_ignores_its_cancellation_loses_the_session() -> None:
    class Stubborn(AsyncSlow):
        async def step_async(
            self, action: Count, timeout_s: float | None = None, **kwargs: Any
        ) -> Counted:
            self.gates.entered.set()
            while not self.gates.leave.is_set():
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    self.gates.cancelled.release()
            return Counted()

    clock, gates = ManualClock(), Gates()
    gates.cancelled = threading.Semaphore(0)  # type: ignore[attr-defined]
    settings = EngineSettings(close_timeout_s=0.01)
    async with opened(lambda: Stubborn(gates), clock=clock, settings=settings) as caller:
        step = caller.send(Kind.STEP, {}, timeout_s=2.0)
        await entered(gates)
        clock.advance(2)
        await received(step)
        behind = caller.send(Kind.STEP, {})
        clock.advance(10)
        assert await reason(behind) == "ENVIRONMENT_CRASHED"
    assert gates.closed == 1
    gates.leave.set()
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()


async def test_answered_operations_leave_no_timer() -> None:
    clock = ManualClock()
    async with opened(Countdown, clock=clock) as caller:
        await caller.step(timeout_s=5)
        assert clock.waiting == 0


# Cancellation


async def test_a_queued_operation_is_dropped() -> None:
    async with held() as (caller, gates, step):
        queued = caller.send(Kind.STEP, {}, request_id=0)
        assert caller.session.cancel(1) is CancelEffect.DROPPED
        error = (await received(queued)).error
        assert error is not None
        assert (error.reason.name, error.effect) == ("CANCELLED", Effect.NONE)
        assert caller.session.cancel(1) is CancelEffect.NOT_FOUND
        gates.leave.set()
        await received(step)
        assert (await caller.do(Kind.STATE))["step_count"] == 1


async def test_cancelling_what_runs_on_a_thread_answers_at_once() -> None:
    gates = Gates()
    async with opened(lambda: Slow(gates)) as caller:
        step = caller.send(Kind.STEP, {"text": "wait"}, request_id=1)
        await entered(gates)
        assert caller.session.cancel(1) is CancelEffect.RUNS_ON
        error = (await received(step)).error
        assert error is not None
        assert (error.reason.name, error.effect) == ("CANCELLED", Effect.UNKNOWN)
        assert caller.session.cancel(1) is CancelEffect.NOT_FOUND
        after = caller.send(Kind.STATE)
        gates.leave.set()
        assert b'"step_count":1' in (await received(after)).content


async def test_cancelling_what_runs_on_the_loop_stops_it() -> None:
    gates = Gates()
    async with opened(lambda: AsyncSlow(gates)) as caller:
        operation = caller.operation(Kind.STEP, {"text": "wait"})
        step = send(caller.session, operation)
        await entered(gates)
        assert caller.session.cancel_operation(operation) is CancelEffect.STOPPED
        error = (await received(step)).error
        assert error is not None
        assert (error.reason.name, error.effect) == ("CANCELLED", Effect.UNKNOWN)
        assert (await caller.step())["left"] == -1


async def test_an_environment_that_cancels_itself_keeps_its_session() -> None:
    class SelfCancelling(AsyncCountdown):
        async def step_async(
            self, action: Count, timeout_s: float | None = None, **kwargs: Any
        ) -> Counted:
            raise asyncio.CancelledError

    async with opened(SelfCancelling) as caller:
        step = caller.send(Kind.STEP, {})
        assert await reason(step) == "CANCELLED"
        await caller.reset()


# The end


@EVERYWHERE
async def test_operations_behind_a_close_are_told_that_the_session_is_closed(
    factory: type[Countdown],
) -> None:
    async with opened(factory) as caller:
        close, behind = caller.send(Kind.CLOSE), caller.send(Kind.STEP, {})
        assert (await received(close)).error is None
        assert await reason(behind) == "SESSION_CLOSED"
        with pytest.raises(SessionClosedError) as caught:
            await caller.step()
        assert caught.value.session_lost


async def test_close_is_answered_once_the_environment_is_closed_and_the_slot_free() -> None:
    gates = Gates()
    async with running(lambda: Slow(gates)) as manager, manager.attach(peer="test") as attachment:
        caller = Caller(attachment.open(""))
        await caller.reset()
        replied: list[tuple[int, int]] = []
        close = caller.send(Kind.CLOSE)
        close.add_done_callback(lambda _: replied.append((gates.closed, len(manager.sessions()))))
        await received(close)
        await asyncio.sleep(0)
        assert replied == [(1, 0)]


async def test_a_close_that_fails_is_logged_and_the_session_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running(BadClose) as manager, manager.attach(peer="test") as attachment:
        caller = Caller(attachment.open(""))
        await caller.reset()
        assert await caller.close() == {"step_count": 0}
        assert manager.sessions() == []
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert "failed to close" in record.getMessage()


async def test_a_close_that_hangs_is_given_up() -> None:
    gates = Gates()

    class HangingClose(Countdown):
        def close(self) -> None:
            gates.leave.wait(10)

    settings = EngineSettings(close_timeout_s=0.01)
    async with running(HangingClose, settings=settings) as manager:
        async with manager.attach(peer="test") as attachment:
            caller = Caller(attachment.open(""))
            await caller.reset()
            await caller.close()
            assert (manager.sessions(), manager.stuck_threads) == ([], 1)
        gates.leave.set()


@pytest.mark.parametrize(
    "error", [SystemExit(1), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError()]
)
async def test_whatever_an_awaited_close_raises_ends_its_session_alone(
    error: BaseException,
) -> None:
    class Exits(AsyncCountdown):
        async def close(self) -> None:
            raise error

    async with running(Exits) as manager, manager.attach(peer="test") as attachment:
        caller = Caller(attachment.open(""))
        await caller.reset()
        assert await caller.close() == {"step_count": 0}
        assert manager.sessions() == []


async def test_an_awaited_close_that_ignores_its_cancellation_is_given_up() -> None:
    leave = asyncio.Event()

    class Stays(AsyncCountdown):
        async def close(self) -> None:
            while not leave.is_set():
                try:
                    await leave.wait()
                except asyncio.CancelledError:
                    continue

    settings = EngineSettings(close_timeout_s=0.01)
    async with (
        running(Stays, settings=settings) as manager,
        manager.attach(peer="test") as attachment,
    ):
        caller = Caller(attachment.open(""))
        await caller.reset()
        assert await caller.close() == {"step_count": 0}
        leave.set()


async def test_a_session_tells_its_opening_and_its_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with opened(Countdown) as caller:
        await caller.reset()
        await caller.step()
    messages = [record.getMessage() for record in caplog.records if "session" in record.name]
    of = f"session_id={caller.session.id} environment=Countdown peer=test"
    assert messages == [
        f"session opened {of}",
        f"session closed {of} steps=1 cause=its connection ended",
    ]


async def test_a_session_describes_itself() -> None:
    clock = ManualClock()
    async with held(clock=clock) as (caller, gates, step):
        clock.advance(3)
        info = caller.session.info()
        assert (info.state, info.idle_s, info.age_s) == (SessionState.RUNNING, None, 3)
        assert (info.environment, info.environment_type) == ("<lambda>", "Slow")
        gates.leave.set()
        await received(step)
        clock.advance(2)
        info = caller.session.info()
        assert (info.state, info.idle_s, info.step_count) == (SessionState.READY, 2, 1)
        assert info.peer == "test"


async def test_an_environment_without_tasks_says_so() -> None:
    async with opened(Countdown) as caller:
        with pytest.raises(NotSupportedError, match="list_splits is not supported"):
            await caller.do(Kind.TASKS, TaskQuery(method="list_splits"))


@pytest.mark.parametrize("seed", range(4))
@EVERYWHERE
async def test_whatever_happens_each_operation_is_answered_exactly_once(
    factory: type[Countdown], seed: int
) -> None:
    chance = random.Random(seed)
    answers: Counter[int] = Counter()
    asked = 0
    async with running(factory) as manager:
        for _ in range(20):
            async with manager.attach(peer="test") as attachment:
                caller = Caller(attachment.open(""))
                for number in range(1, chance.randrange(2, 40)):
                    kind = chance.choice([Kind.RESET, Kind.STEP, Kind.STEP, Kind.STATE])
                    operation = caller.operation(
                        Kind.CLOSE if chance.random() < 0.02 else kind,
                        {},
                        request_id=chance.choice([0, None, number, number - 1]),
                        timeout_s=chance.choice([None, None, 0.0, 0.001, 5.0]),
                    )

                    def deliver(reply: Any, which: int = asked) -> None:
                        answers[which] += 1

                    caller.session.submit(operation, deliver)
                    asked += 1
                    if chance.random() < 0.2:
                        caller.session.cancel_operation(operation)
                    if chance.random() < 0.2:
                        await asyncio.sleep(0)
                if chance.random() < 0.5:
                    await caller.ask(Kind.STATE)
        assert manager.sessions() == []
    assert answers == Counter(range(asked))


@pytest.mark.parametrize("isolation", ["thread", "inline"])
async def test_an_environment_goes_with_its_session_and_not_when_garbage_is_collected(
    isolation: str,
) -> None:
    gone = asyncio.Event()
    loop = asyncio.get_running_loop()

    class Kept(Countdown):
        ISOLATION: ClassVar[str] = isolation

        def __init__(self) -> None:
            super().__init__()
            weakref.finalize(self, loop.call_soon_threadsafe, gone.set)

    gc.disable()
    try:
        async with opened(Kept) as caller:
            await caller.reset()
            await caller.step()
            await caller.do(Kind.LIST_TOOLS)
            await caller.close()
            async with asyncio.timeout(10):
                await gone.wait()
    finally:
        gc.enable()
