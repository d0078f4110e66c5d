from __future__ import annotations

import asyncio
import functools
import gc
import weakref
from typing import Any

import pytest

from openenv_grpc.engine import EngineSettings, SessionManager
from openenv_grpc.errors import (
    Effect,
    EnvironmentCrashedError,
    EnvironmentFactoryError,
    InvalidRequestError,
    OpenEnvError,
    OutcomeForgottenError,
    RequestConflictError,
    SessionCapacityError,
    SessionClosedError,
    SessionExpiredError,
    SessionNotFoundError,
    SessionTakenOverError,
)
from openenv_grpc.operations import Kind, Reply
from openenv_grpc.sessions import Attachment, CancelEffect, Resume, SessionPort, SessionState
from tests.engine.talking import Caller, ManualClock, received, running
from tests.environments import Countdown, Failing, Gates, NotBuilt, Slow

KEY = "a key of at least 22 characters"
RESUME = Resume(key=KEY, window_s=60)


async def entered(gates: Gates) -> None:
    assert await asyncio.to_thread(gates.entered.wait, 5)


def lost_sessions() -> tuple[list[OpenEnvError], Any]:
    lost: list[OpenEnvError] = []
    return lost, lambda _, error: lost.append(error)


def opening(attachment: Attachment, *, number: int = 1, digest: bytes = b"", **options: Any) -> Any:
    """Opens a session that has a window; returns a caller and the future reply to the opening."""
    reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
    operation = Caller(None).operation(Kind.OPEN, request_id=number, digest=digest)  # type: ignore[arg-type]
    options.setdefault("resume", RESUME)
    port = attachment.open("", operation=operation, deliver=reply.set_result, **options)
    return Caller(port), reply


async def open_and_leave(manager: SessionManager, *, steps: int = 0) -> str:
    """Opens a session, steps in it, and loses the connection."""
    async with manager.attach(peer="first") as attachment:
        caller, opened = opening(attachment)
        await received(opened)
        for number in range(steps):
            await caller.step(str(number), request_id=2 + number)
        return caller.session.id


# Detaching and attaching


async def test_a_session_outlives_its_connection_and_goes_on_where_it_was() -> None:
    async with running(Countdown) as manager:
        session_id = await open_and_leave(manager, steps=2)
        assert manager.find(session_id).info().state is SessionState.DETACHED
        assert manager.find(session_id).info().peer == ""
        async with manager.attach(peer="second") as attachment:
            caller = Caller(attachment.attach(session_id, KEY))
            assert caller.session.last_request_id == 3
            assert caller.session.info().peer == "second"
            assert (await caller.step(request_id=4))["left"] == -3
            assert caller.session.info().state is SessionState.READY


async def test_what_was_under_way_is_done_and_answered_to_who_asks_again() -> None:
    gates = Gates()
    async with running(functools.partial(Slow, gates), max_sessions=5) as manager:
        heard: list[Reply] = []
        async with manager.attach(peer="first") as attachment:
            caller, _ = opening(attachment)
            session_id = caller.session.id
            for number, text in ((2, "wait"), (3, "queued")):
                step = caller.operation(Kind.STEP, {"text": text}, request_id=number)
                caller.session.submit(step, heard.append)
            await entered(gates)
        async with manager.attach(peer="second") as attachment:
            caller = Caller(attachment.attach(session_id, KEY))
            again = [
                caller.send(Kind.STEP, {"text": text}, request_id=number)
                for number, text in ((2, "wait"), (3, "queued"))
            ]
            gates.leave.set()
            assert [(await received(reply)).error for reply in again] == [None, None]
            assert (await caller.step(request_id=4))["left"] == -3
        assert heard == []
        assert gates.closed == 0


async def test_an_answer_that_came_while_nobody_was_there_is_in_the_record() -> None:
    gates = Gates()
    clock = ManualClock()
    async with running(functools.partial(Slow, gates), max_sessions=5, clock=clock) as manager:
        async with manager.attach(peer="first") as attachment:
            caller, _ = opening(attachment)
            session_id = caller.session.id
            caller.send(Kind.STEP, {"text": "wait"}, request_id=2)
            await entered(gates)
        assert manager.find(session_id).info().state is SessionState.RUNNING
        gates.leave.set()
        async with asyncio.timeout(5):
            while manager.find(session_id).info().state is SessionState.RUNNING:
                await asyncio.sleep(0)
        async with manager.attach(peer="second") as attachment:
            caller = Caller(attachment.attach(session_id, KEY))
            assert (await caller.step("wait", request_id=2))["left"] == -1
            assert (await caller.step(request_id=3))["left"] == -2


@pytest.mark.parametrize(
    ("session_id", "key"),
    [(None, "another key of 22 characters"), ("no such session", KEY), ("", "")],
    ids=["wrong key", "wrong id", "neither"],
)
async def test_attaching_takes_both_id_and_key(session_id: str | None, key: str) -> None:
    async with running(Countdown) as manager:
        opened = await open_and_leave(manager)
        async with manager.attach(peer="second") as attachment:
            with pytest.raises(SessionNotFoundError) as caught:
                attachment.attach(opened if session_id is None else session_id, key)
            assert caught.value.session_lost
            attachment.attach(opened, KEY)


async def test_a_session_without_a_window_cannot_be_attached_to() -> None:
    async with running(Countdown) as manager, manager.attach(peer="first") as first:
        session = first.open("")
        async with manager.attach(peer="second") as second:
            with pytest.raises(SessionNotFoundError):
                second.attach(session.id, KEY)


# Fencing


async def test_attaching_fences_who_held_the_session() -> None:
    lost, on_lost = lost_sessions()
    async with (
        running(Countdown) as manager,
        manager.attach(peer="first") as first,
        manager.attach(peer="second") as second,
    ):
        old, opened = opening(first, on_lost=on_lost)
        await received(opened)
        new = Caller(second.attach(old.session.id, KEY))
        assert [type(error) for error in lost] == [SessionTakenOverError]
        assert not lost[0].session_lost
        with pytest.raises(SessionTakenOverError) as caught:
            await old.step(request_id=2)
        assert caught.value.effect is Effect.NONE
        old.session.acknowledge(1)
        assert old.session.cancel(1) is CancelEffect.NOT_FOUND
        assert (await new.step(request_id=2))["left"] == -1
        assert (await received(new.send(Kind.OPEN, request_id=1))).error is None


async def test_no_reply_reaches_who_was_fenced() -> None:
    gates = Gates()
    async with (
        running(functools.partial(Slow, gates), max_sessions=5) as manager,
        manager.attach(peer="first") as first,
        manager.attach(peer="second") as second,
    ):
        old, _ = opening(first)
        step = old.send(Kind.STEP, {"text": "wait"}, request_id=2)
        await entered(gates)
        new = Caller(second.attach(old.session.id, KEY))
        gates.leave.set()
        assert (await new.step("wait", request_id=2))["left"] == -1
        assert not step.done()


async def test_who_was_fenced_neither_closes_nor_detaches_the_session_when_it_leaves() -> None:
    clock = ManualClock()
    async with running(Countdown, clock=clock) as manager, manager.attach(peer="second") as second:
        async with manager.attach(peer="first") as first:
            old, opened = opening(first)
            await received(opened)
            new = Caller(second.attach(old.session.id, KEY))
        clock.advance(61)
        assert (await new.step(request_id=2))["left"] == -1


async def test_the_end_of_the_session_is_told_to_the_one_who_holds_it() -> None:
    lost, on_lost = lost_sessions()
    lost_later, on_lost_later = lost_sessions()
    async with (
        running(Countdown) as manager,
        manager.attach(peer="first") as first,
        manager.attach(peer="second") as second,
    ):
        old, opened = opening(first, on_lost=on_lost)
        await received(opened)
        second.attach(old.session.id, KEY, on_lost=on_lost_later)
        manager.end_session(old.session.id, SessionClosedError("by an operator"))
        assert [type(error) for error in lost] == [SessionTakenOverError]
        assert [type(error) for error in lost_later] == [SessionClosedError]
        assert lost_later[0].session_lost


# Opening again


async def test_an_open_with_a_known_key_joins_the_session_and_gets_its_answer() -> None:
    built: list[Countdown] = []

    def build() -> Countdown:
        built.append(Countdown())
        return built[-1]

    async with running(build) as manager, manager.attach(peer="second") as second:
        async with manager.attach(peer="first") as first:
            caller, _ = opening(first)
            session_id = caller.session.id
        caller, opened = opening(second)
        assert caller.session.id == session_id
        assert (await received(opened)).error is None
        assert (await caller.step(request_id=2))["left"] == -1
        assert len(built) == 1


async def test_an_open_with_a_known_key_fences_too() -> None:
    lost, on_lost = lost_sessions()
    async with (
        running(Countdown) as manager,
        manager.attach(peer="first") as first,
        manager.attach(peer="second") as second,
    ):
        _, opened = opening(first, on_lost=on_lost)
        await received(opened)
        _, again = opening(second)
        assert (await received(again)).content == opened.result().content
        assert [type(error) for error in lost] == [SessionTakenOverError]


async def test_an_open_that_differs_from_the_first_is_a_conflict() -> None:
    async with running(Countdown) as manager, manager.attach(peer="test") as attachment:
        _, opened = opening(attachment)
        await received(opened)
        _, other = opening(attachment, digest=b"other")
        assert isinstance((await received(other)).error, RequestConflictError)


async def test_an_open_without_a_number_is_no_repeat() -> None:
    async with running(Countdown) as manager, manager.attach(peer="test") as attachment:
        caller, opened = opening(attachment)
        await received(opened)
        with pytest.raises(InvalidRequestError, match="request_id 1"):
            opening(attachment, number=0)
        assert (await caller.step(request_id=2))["left"] == -1


async def test_a_constructor_that_failed_is_told_again_and_not_called_again() -> None:
    async with running(NotBuilt) as manager, manager.attach(peer="test") as attachment:
        for _ in range(2):
            _, opened = opening(attachment)
            assert isinstance((await received(opened)).error, EnvironmentFactoryError)
        assert manager.sessions() == []


async def test_a_refused_open_leaves_its_key_free() -> None:
    async with (
        running(Countdown, max_sessions=1) as manager,
        manager.attach(peer="t") as attachment,
    ):
        other = Caller(attachment.open(""))
        with pytest.raises(SessionCapacityError):
            opening(attachment)
        await other.close()
        _, opened = opening(attachment)
        assert (await received(opened)).error is None


# Windows


async def test_a_window_that_passes_ends_the_session_and_frees_its_slot(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    caplog.set_level("INFO")
    settings = EngineSettings(detached_grace_s=100)
    async with (
        running(Countdown, max_sessions=1, clock=clock, settings=settings) as manager,
        manager.attach(peer="second") as attachment,
    ):
        session_id = await open_and_leave(manager)
        clock.advance(59)
        with pytest.raises(SessionCapacityError):
            attachment.open("")
        clock.advance(2)
        attachment.open("")
        with pytest.raises(SessionNotFoundError):
            attachment.attach(session_id, KEY)
        assert "cause=its window passed" in caplog.text


async def test_attaching_in_time_stops_the_window() -> None:
    clock = ManualClock()
    async with running(Countdown, clock=clock) as manager:
        session_id = await open_and_leave(manager)
        clock.advance(59)
        async with manager.attach(peer="second") as attachment:
            caller = Caller(attachment.attach(session_id, KEY))
            clock.advance(1000)
            assert (await caller.step(request_id=2))["left"] == -1
        clock.advance(59)
        assert [info.session_id for info in manager.sessions()] == [session_id]


async def test_what_runs_when_the_window_passes_may_have_taken_effect() -> None:
    clock, gates = ManualClock(), Gates()
    async with running(functools.partial(Slow, gates), max_sessions=5, clock=clock) as manager:
        async with manager.attach(peer="first") as attachment:
            caller, _ = opening(attachment)
            caller.send(Kind.STEP, {"text": "wait"}, request_id=2)
            await entered(gates)
            step = caller.send(Kind.STEP, {"text": "wait"}, request_id=2)
            by_id = manager.find(caller.session.id)
            seen = Caller(by_id).send(Kind.STEP, {"text": "wait"}, request_id=2)
        clock.advance(61)
        gates.leave.set()
        error = (await received(seen)).error
        assert isinstance(error, SessionExpiredError)
        assert error.effect is Effect.UNKNOWN
        assert error.session_lost
        assert not step.done()


@pytest.mark.parametrize(
    ("asked", "limit", "granted"), [(60, 600, 60), (1e6, 600, 600), (60, 5, 5)]
)
async def test_the_window_is_as_long_as_was_asked_up_to_a_limit(
    asked: float, limit: float, granted: float
) -> None:
    clock = ManualClock()
    settings = EngineSettings(max_resume_window_s=limit)
    async with running(Countdown, clock=clock, settings=settings) as manager:
        async with manager.attach(peer="first") as attachment:
            port = attachment.open("", resume=Resume(key=KEY, window_s=asked))
            assert manager.find(port.id).resume_window_s == granted  # type: ignore[attr-defined]
        clock.advance(granted - 1)
        assert manager.sessions()
        clock.advance(2)
        assert manager.sessions() == []


async def test_a_host_may_grant_no_window() -> None:
    async with running(Countdown, settings=EngineSettings(max_resume_window_s=0)) as manager:
        await open_and_leave(manager)
        assert manager.sessions() == []


async def test_a_detached_session_does_not_idle_and_an_attached_one_starts_anew() -> None:
    clock = ManualClock()
    lost, on_lost = lost_sessions()
    async with running(Countdown, clock=clock, session_timeout_s=10) as manager:
        session_id = await open_and_leave(manager)
        clock.advance(50)
        async with manager.attach(peer="second") as attachment:
            caller = Caller(attachment.attach(session_id, KEY, on_lost=on_lost))
            clock.advance(9)
            assert (await caller.step(request_id=2))["left"] == -1
            clock.advance(11)
            assert [type(error) for error in lost] == [SessionExpiredError]


async def test_stopping_ends_detached_sessions_and_leaves_no_timer() -> None:
    clock, gates = ManualClock(), Gates()
    async with running(functools.partial(Slow, gates), max_sessions=5, clock=clock) as manager:
        await open_and_leave(manager)
    assert gates.closed == 1
    assert clock.waiting == 0


async def test_a_released_session_is_not_detached() -> None:
    clock = ManualClock()
    async with running(Countdown, clock=clock) as manager:
        async with manager.attach(peer="first") as attachment:
            caller, opened = opening(attachment)
            await received(opened)
            attachment.release(caller.session)
        clock.advance(61)
        assert len(manager.sessions()) == 1


async def test_being_attached_again_and_again_leaves_nothing_behind() -> None:
    clock = ManualClock()
    async with running(Countdown, clock=clock) as manager:
        session_id = await open_and_leave(manager)
        for number in range(2, 102):
            async with manager.attach(peer="again") as attachment:
                await Caller(attachment.attach(session_id, KEY)).step(request_id=number)
        assert clock.waiting == 1
        clock.advance(61)
        assert (clock.waiting, manager.sessions()) == (0, [])


# Eviction


async def test_a_detached_session_gives_its_slot_to_who_asks_after_a_grace() -> None:
    clock = ManualClock()
    async with (
        running(Countdown, max_sessions=1, clock=clock) as manager,
        manager.attach(peer="second") as attachment,
    ):
        session_id = await open_and_leave(manager)
        clock.advance(9)
        with pytest.raises(SessionCapacityError):
            attachment.open("")
        clock.advance(2)
        attachment.open("")
        evicted = Caller(attachment.attach(session_id, KEY))
        with pytest.raises(SessionExpiredError, match="slot") as caught:
            await evicted.step(request_id=2)
        assert caught.value.session_lost


async def test_the_slot_of_an_evicted_session_is_free_once_its_environment_is_closed() -> None:
    clock, gates = ManualClock(), Gates()
    async with (
        running(functools.partial(Slow, gates), max_sessions=1, clock=clock) as manager,
        manager.attach(peer="second") as attachment,
    ):
        await open_and_leave(manager)
        clock.advance(11)
        with pytest.raises(SessionCapacityError):
            attachment.open("")
        async with asyncio.timeout(5):
            while manager.sessions():
                await asyncio.sleep(0)
        assert gates.closed == 1
        attachment.open("")


async def test_only_detached_sessions_are_evicted_the_longest_detached_first() -> None:
    clock = ManualClock()
    async with (
        running(Countdown, max_sessions=3, clock=clock) as manager,
        manager.attach(peer="held") as attachment,
    ):
        held, _ = opening(attachment, resume=Resume(key=KEY + "held", window_s=60))
        async with manager.attach(peer="late") as late:
            opening(late, resume=Resume(key=KEY + "late", window_s=60))
            first = await open_and_leave(manager)
            clock.advance(5)
        clock.advance(20)
        attachment.open("")
        left = [info.session_id for info in manager.sessions()]
        assert held.session.id in left
        assert first not in left
        assert len(left) == 3


# Records


async def close(caller: Caller, number: int) -> Any:
    return await caller.do(Kind.CLOSE, request_id=number)


async def test_a_closed_session_answers_repeats_until_its_window_has_passed() -> None:
    clock = ManualClock()
    async with running(Countdown, max_sessions=1, clock=clock) as manager:
        async with manager.attach(peer="first") as attachment:
            caller, opened = opening(attachment)
            await received(opened)
            await caller.step(request_id=2)
            assert await close(caller, 3) == {"step_count": 1}
            session_id = caller.session.id
        async with manager.attach(peer="second") as attachment:
            Caller(attachment.open(""))  # the slot is free
            clock.advance(59)
            caller = Caller(attachment.attach(session_id, KEY))
            assert caller.session.last_request_id == 3
            assert await close(caller, 3) == {"step_count": 1}
            assert (await caller.step(request_id=2))["left"] == -1
            with pytest.raises(SessionClosedError) as caught:
                await caller.step(request_id=4)
            assert (caught.value.effect, caught.value.session_lost) == (Effect.NONE, True)
            clock.advance(2)
            with pytest.raises(SessionNotFoundError):
                attachment.attach(session_id, KEY)


async def test_a_close_that_is_under_way_is_answered_to_who_asks_again() -> None:
    gates = Gates()
    async with running(functools.partial(Slow, gates), max_sessions=5) as manager:
        async with manager.attach(peer="first") as attachment:
            caller, _ = opening(attachment)
            caller.send(Kind.STEP, {"text": "wait"}, request_id=2)
            caller.send(Kind.CLOSE, request_id=3)
            session_id = caller.session.id
            await entered(gates)
        async with manager.attach(peer="second") as attachment:
            closed = Caller(attachment.attach(session_id, KEY)).send(Kind.CLOSE, request_id=3)
            gates.leave.set()
            assert (await received(closed)).error is None
        assert gates.closed == 1


async def test_a_crashed_session_tells_what_its_last_step_came_to() -> None:
    async with running(Failing) as manager:
        async with manager.attach(peer="first") as attachment:
            caller, opened = opening(attachment)
            await received(opened)
            session_id = caller.session.id
            crash = caller.send(Kind.STEP, {"text": "exit"}, request_id=2)
            assert isinstance((await received(crash)).error, EnvironmentCrashedError)
        async with manager.attach(peer="second") as attachment:
            caller = Caller(attachment.attach(session_id, KEY))
            again = (await caller.ask(Kind.STEP, {"text": "exit"}, request_id=2)).error
            assert isinstance(again, EnvironmentCrashedError)
            assert (again.effect, again.session_lost) == (Effect.UNKNOWN, True)
            new = (await caller.ask(Kind.STEP, request_id=3)).error
            assert isinstance(new, EnvironmentCrashedError)
            assert new.effect is Effect.NONE


@pytest.mark.parametrize(
    "settings",
    [EngineSettings(max_kept_records=2), EngineSettings(max_kept_record_bytes=200)],
    ids=["number", "size"],
)
async def test_only_so_many_records_are_kept_and_the_oldest_goes_first(
    settings: EngineSettings,
) -> None:
    clock = ManualClock()
    async with (
        running(Countdown, settings=settings, clock=clock) as manager,
        manager.attach(peer="test") as attachment,
    ):
        sessions: list[SessionPort] = []
        for number in range(3):
            resume = Resume(key=KEY + str(number), window_s=60)
            caller, opened = opening(attachment, resume=resume)
            await received(opened)
            sessions.append(caller.session)
            await close(caller, 2)
        with pytest.raises(SessionNotFoundError):
            attachment.attach(sessions[0].id, KEY + "0")
        for number in (1, 2):
            attachment.attach(sessions[number].id, KEY + str(number))
        assert clock.waiting == 2


async def test_a_record_holds_on_to_no_environment() -> None:
    class Tracked(Countdown):
        pass

    seen: list[weakref.ref[Tracked]] = []

    def build() -> Tracked:
        environment = Tracked()
        seen.append(weakref.ref(environment))
        return environment

    async with running(build) as manager:
        async with manager.attach(peer="first") as attachment:
            caller, opened = opening(attachment)
            await received(opened)
            session_id = caller.session.id
            await close(caller, 2)
        async with asyncio.timeout(5):
            while seen[0]() is not None:  # the thread may be a step behind
                gc.collect()
                await asyncio.sleep(0)
        async with manager.attach(peer="second") as attachment:
            attachment.attach(session_id, KEY)


async def test_a_forgotten_answer_still_tells_that_the_step_happened() -> None:
    async with running(Countdown) as manager:
        async with manager.attach(peer="first") as attachment:
            caller, opened = opening(attachment)
            await received(opened)
            text = "x" * (9 * 2**20)
            await caller.step(text, request_id=2)
            session_id = caller.session.id
        async with manager.attach(peer="second") as attachment:
            caller = Caller(attachment.attach(session_id, KEY))
            with pytest.raises(OutcomeForgottenError) as caught:
                await caller.step(text, request_id=2)
            assert (caught.value.effect, caught.value.session_lost) == (Effect.DONE, False)
            assert (await caller.step(request_id=3))["left"] == -2


def test_a_key_shows_in_no_representation() -> None:
    assert KEY not in repr(RESUME)
