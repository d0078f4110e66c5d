from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from openenv_grpc.engine import EngineSettings, SessionManager
from openenv_grpc.errors import (
    DeadlineExceededError,
    DrainingError,
    Effect,
    InvalidRequestError,
    OpenEnvError,
    OperationCancelledError,
    SessionCapacityError,
)
from openenv_grpc.operations import Kind, Operation, Reply
from openenv_grpc.sessions import Attachment, CancelEffect, QueuePlace, Resume, SessionState, Wait
from tests.engine.talking import CODEC, Caller, ManualClock, received, running
from tests.environments import (
    Countdown,
    Gates,
    InlineCountdown,
    NotBuilt,
    Occupancy,
    Occupying,
    Slow,
)

KEY = "a key of at least 22 characters"
RESUME = Resume(key=KEY, window_s=60)


@dataclass
class Opening:
    """An opening on its way: its session, its reply to come, and the places that it was told."""

    caller: Caller
    reply: asyncio.Future[Reply]
    operation: Operation
    places: list[QueuePlace] = field(default_factory=list)

    @property
    def positions(self) -> list[int]:
        return [place.position for place in self.places]

    @property
    def state(self) -> SessionState:
        return self.caller.session.info().state

    async def opened(self) -> Caller:
        assert (await received(self.reply)).error is None
        return self.caller

    async def refused(self) -> OpenEnvError:
        error = (await received(self.reply)).error
        assert error is not None
        assert error.session_lost
        assert error.effect is Effect.NONE
        return error


def open_(
    attachment: Attachment,
    *,
    environment: str = "",
    deadline_s: float | None = None,
    limit_s: float | None = None,
    resume: Resume | None = None,
    lost: list[OpenEnvError] | None = None,
    **wait: Any,
) -> Opening:
    """Opens a session that may wait for its slot."""
    reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
    places: list[QueuePlace] = []
    operation = Operation(kind=Kind.OPEN, codec=CODEC, request_id=1, timeout_s=deadline_s)
    port = attachment.open(
        environment,
        operation=operation,
        deliver=reply.set_result,
        on_lost=None if lost is None else (lambda _, error: lost.append(error)),
        resume=resume,
        wait=Wait(timeout_s=limit_s, tell=places.append, **wait),
    )
    return Opening(Caller(port), reply, operation, places)


def states(manager: SessionManager) -> list[SessionState]:
    return [info.state for info in manager.sessions()]


async def until(happened: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not happened():
            await asyncio.sleep(0)


# Order


async def test_openings_past_capacity_wait_and_are_admitted_in_order_of_arrival() -> None:
    async with running(Countdown, max_sessions=2) as manager, manager.attach(peer="t") as held:
        openings = [open_(held) for _ in range(5)]
        callers = [await opening.opened() for opening in openings[:2]]
        assert [opening.state for opening in openings[2:]] == [SessionState.QUEUED] * 3
        assert [opening.positions for opening in openings] == [[], [], [1], [2], [3]]
        for number in (2, 3, 4):
            await callers[number - 2].close()
            callers.append(await openings[number].opened())
            assert not any(opening.reply.done() for opening in openings[number + 1 :])
        assert openings[2].positions == [1, 0]


async def test_what_is_asked_of_a_waiting_session_is_done_once_it_has_its_slot() -> None:
    async with running(Countdown, max_sessions=1) as manager, manager.attach(peer="t") as held:
        first = await open_(held).opened()
        second = open_(held)
        step = second.caller.send(Kind.STEP, {"text": "ahead"}, request_id=2)
        closed = second.caller.send(Kind.CLOSE, request_id=3)
        third = open_(held)
        await first.close()
        for reply in (second.reply, step, closed, third.reply):
            assert (await received(reply)).error is None


async def test_a_session_whose_first_operation_is_no_opening_waits_as_well() -> None:
    async with running(Countdown, max_sessions=1) as manager, manager.attach(peer="t") as held:
        first = await open_(held).opened()
        step = Caller(held.open("", wait=Wait())).send(Kind.STEP, {})
        await first.close()
        assert (await received(step)).error is None


async def test_who_does_not_wait_is_refused_although_a_slot_is_free_that_others_wait_for() -> None:
    async with running(Countdown, max_sessions=3) as manager, manager.attach(peer="t") as held:
        first, second = [await open_(held).opened() for _ in range(2)]
        group = [open_(held, group="pair", group_size=2) for _ in range(2)]
        with pytest.raises(SessionCapacityError):
            held.open("")
        with pytest.raises(SessionCapacityError):
            manager.lease("", peer="t")
        late = open_(held)
        await first.close()
        for opening in group:
            await opening.opened()
        assert late.state is SessionState.QUEUED
        await second.close()
        await late.opened()


async def test_environments_have_queues_of_their_own() -> None:
    async with (
        running(Countdown, InlineCountdown, max_sessions=1) as manager,
        manager.attach(peer="t") as held,
    ):
        await open_(held).opened()
        waiting = open_(held)
        await open_(held, environment="InlineCountdown").opened()
        assert waiting.state is SessionState.QUEUED


async def test_a_lease_waits_where_it_may() -> None:
    async with running(Countdown, max_sessions=1) as manager, manager.attach(peer="t") as held:
        first = await open_(held).opened()
        lease = manager.lease("", peer="t", wait=Wait())
        assert lease.info().state is SessionState.QUEUED
        await first.close()
        assert lease.info().state is SessionState.OPENING


async def test_a_slot_is_given_on_once_the_environment_before_has_closed() -> None:
    leave, occupancy = threading.Event(), Occupancy()

    class Watched(Occupying):
        def __init__(self) -> None:
            super().__init__(occupancy)

        def close(self) -> None:
            leave.wait(10)
            super().close()

    async with running(Watched, max_sessions=1) as manager, manager.attach(peer="b") as other:
        async with manager.attach(peer="a") as held:
            await open_(held).opened()
            waiting = open_(other)
            asyncio.get_running_loop().call_later(0.01, leave.set)
        await waiting.opened()
        assert occupancy.most == 1


@pytest.mark.parametrize("isolation", ["thread", "shared", "inline"])
async def test_sixty_four_clients_share_four_slots(isolation: str) -> None:
    occupancy = Occupancy()

    async def drive(opening: Opening, number: int) -> None:
        async with asyncio.timeout(60):
            assert (await opening.reply).error is None
        # Those before it may be built later, on their threads. But none of them waits for a slot.
        assert SessionState.QUEUED not in [before.state for before in openings[:number]]
        for _ in range(20):
            await opening.caller.step()
        await opening.caller.close()

    factory = functools.partial(Occupying, occupancy)
    async with (
        running(factory, max_sessions=4, isolation=isolation) as manager,
        manager.attach(peer="t") as held,
    ):
        openings = [open_(held) for _ in range(64)]
        await asyncio.gather(*(drive(opening, n) for n, opening in enumerate(openings)))
    assert occupancy.most == 4


# Limits


async def test_a_full_queue_refuses_with_a_delay() -> None:
    settings = EngineSettings(max_sessions=1, max_queued=2)
    async with running(Countdown, settings=settings) as manager, manager.attach(peer="t") as held:
        for _ in range(3):
            open_(held)
        with pytest.raises(SessionCapacityError, match="--max-queued") as caught:
            open_(held)
        assert caught.value.retry_delay_s
        assert caught.value.metadata["queued_sessions"] == "2"


@pytest.mark.parametrize("refuses", ["host", "client"])
async def test_where_nobody_waits_a_full_host_tells_its_numbers_at_once(refuses: str) -> None:
    settings = EngineSettings(max_sessions=2, max_queued=0 if refuses == "host" else 9)
    wait: dict[str, Any] = {} if refuses == "host" else {"limit_s": 0}
    async with running(Countdown, settings=settings) as manager, manager.attach(peer="t") as held:
        group = [open_(held, group="pair", group_size=2, **wait) for _ in range(2)]
        for opening in group:
            await opening.opened()
        with pytest.raises(SessionCapacityError) as caught:
            open_(held, **wait)
        assert caught.value.metadata == {"active_sessions": "2", "max_sessions": "2"}
        assert caught.value.retry_delay_s == 1.0
        await group[0].caller.close()
        await open_(held, **wait).opened()


@pytest.mark.parametrize(("host_s", "client_s"), [(30, None), (30, 300), (300, 30)])
async def test_the_shorter_limit_ends_the_wait(host_s: float, client_s: float | None) -> None:
    clock = ManualClock()
    settings = EngineSettings(max_sessions=1, queue_timeout_s=host_s, hold_and_wait_grace_s=999)
    async with (
        running(Countdown, settings=settings, clock=clock) as manager,
        manager.attach(peer="t") as held,
    ):
        await open_(held).opened()
        waiting = open_(held, limit_s=client_s)
        assert waiting.places[0].limit_s == 30
        clock.advance(29)
        assert not waiting.reply.done()
        clock.advance(2)
        error = await waiting.refused()
        assert isinstance(error, SessionCapacityError)
        assert "within 30 seconds" in error.message
        assert error.retry_delay_s


async def test_places_are_told_again_as_long_as_the_wait_lasts() -> None:
    clock = ManualClock()
    settings = EngineSettings(max_sessions=1, hold_and_wait_grace_s=999)
    async with (
        running(Countdown, settings=settings, clock=clock) as manager,
        manager.attach(peer="t") as held,
    ):
        await open_(held).opened()
        second, third = open_(held), open_(held)
        clock.advance(5)
        second.caller.session.cancel(1)
        clock.advance(5)
        assert second.positions == [1, 1]
        assert third.positions == [2, 2, 1]
        assert third.places[-1] == QueuePlace(position=1, waited_s=10, limit_s=300, session_limit=1)


# Leaving


async def test_a_deadline_or_a_cancel_takes_an_opening_out_of_the_queue() -> None:
    clock = ManualClock()
    async with (
        running(Countdown, max_sessions=1, clock=clock) as manager,
        manager.attach(peer="t") as held,
    ):
        lost: list[OpenEnvError] = []
        first = await open_(held).opened()
        expired, cancelled = open_(held, deadline_s=3, lost=lost), open_(held, lost=lost)
        step = cancelled.caller.send(Kind.STEP, {})
        last = open_(held)
        clock.advance(4)
        assert isinstance(await expired.refused(), DeadlineExceededError)
        assert cancelled.caller.session.cancel(1) is CancelEffect.DROPPED
        assert isinstance(await cancelled.refused(), OperationCancelledError)
        assert (await received(step)).error is not None
        assert lost == []
        assert states(manager) == [SessionState.READY, SessionState.QUEUED]
        await first.close()
        await last.opened()


@pytest.mark.parametrize("resume", [None, RESUME], ids=["no window", "window"])
async def test_a_connection_that_ends_leaves_the_queue(resume: Resume | None) -> None:
    clock = ManualClock()
    async with (
        running(Countdown, max_sessions=1, clock=clock) as manager,
        manager.attach(peer="a") as held,
    ):
        first = await open_(held).opened()
        async with manager.attach(peer="b") as other:
            open_(other, resume=resume)
        assert states(manager) == [SessionState.READY]
        last = open_(held, resume=resume)
        await first.close()
        await last.opened()


async def test_an_opening_that_is_asked_for_again_elsewhere_keeps_its_place() -> None:
    async with (
        running(Countdown, max_sessions=1) as manager,
        manager.attach(peer="a") as held,
        manager.attach(peer="b") as second,
    ):
        first = await open_(held).opened()
        async with manager.attach(peer="c") as third:
            lost: list[OpenEnvError] = []
            fenced = open_(third, resume=RESUME, lost=lost)
            behind = open_(held)
            again = open_(second, resume=RESUME)
            assert [error.reason.name for error in lost] == ["SESSION_TAKEN_OVER"]
        await until(lambda: again.positions == [1])
        await first.close()
        await again.opened()
        assert not fenced.reply.done()
        assert behind.state is SessionState.QUEUED
        assert again.positions == [1, 0]


async def test_an_opening_that_got_no_slot_leaves_its_key_free() -> None:
    clock = ManualClock()
    async with (
        running(Countdown, max_sessions=1, clock=clock) as manager,
        manager.attach(peer="t") as held,
    ):
        first = await open_(held).opened()
        waiting = open_(held, resume=RESUME, limit_s=1)
        clock.advance(2)
        await waiting.refused()
        await first.close()
        await open_(held, resume=RESUME).opened()


async def test_a_drain_answers_who_waits() -> None:
    async with running(Countdown, max_sessions=1) as manager, manager.attach(peer="t") as held:
        await open_(held).opened()
        waiting = [open_(held), *(open_(held, group="g", group_size=1) for _ in range(2))]
        assert manager.drain() == 1
        for opening in waiting:
            assert isinstance(await opening.refused(), DrainingError)
        with pytest.raises(DrainingError):
            open_(held)


async def test_an_operator_ends_a_session_that_waits() -> None:
    async with running(Countdown, max_sessions=1) as manager, manager.attach(peer="t") as held:
        await open_(held).opened()
        waiting = open_(held)
        manager.end_session(waiting.caller.session.id, DrainingError("ended"))
        await waiting.refused()
        assert states(manager) == [SessionState.READY]


async def test_a_constructor_that_raises_gives_its_slot_on() -> None:
    async with running(NotBuilt, max_sessions=1) as manager, manager.attach(peer="t") as held:
        for opening in [open_(held) for _ in range(200)]:
            assert (await received(opening.reply)).error is not None
        assert manager.sessions() == []


@pytest.mark.parametrize("given_up", ["cancel", "deadline", "disconnect"])
async def test_a_constructor_that_hangs_gives_its_slot_on(given_up: str) -> None:
    gates = Gates()
    built: list[Any] = []

    class Hanging(Countdown):
        def __init__(self) -> None:
            super().__init__()
            built.append(self)
            if len(built) == 1:
                gates.entered.set()
                gates.leave.wait(10)

    settings = EngineSettings(max_sessions=1, close_timeout_s=0.05, stuck_grace_s=0.05)
    async with running(Hanging, settings=settings) as manager, manager.attach(peer="t") as held:
        async with manager.attach(peer="hangs") as other:
            hanging = open_(other, deadline_s=0.05 if given_up == "deadline" else None)
            waiting = open_(held)
            assert await asyncio.to_thread(gates.entered.wait, 5)
            if given_up == "cancel":
                assert hanging.caller.session.cancel(1) is CancelEffect.RUNS_ON
            if given_up != "disconnect":
                await waiting.opened()
        await waiting.opened()
        gates.leave.set()
        await until(lambda: manager.stuck_threads == 0)


# Groups


async def test_a_group_gets_its_slots_whole_or_waits_whole() -> None:
    async with running(Countdown, max_sessions=4) as manager, manager.attach(peer="t") as held:
        first, second = [await open_(held).opened() for _ in range(2)]
        group = [open_(held, group="g", group_size=3) for _ in range(3)]
        assert [opening.positions for opening in group] == [[1]] * 3
        assert states(manager).count(SessionState.QUEUED) == 3
        await first.close()
        for opening in group:
            await opening.opened()
        await second.close()


async def test_a_group_takes_its_place_with_its_last_open() -> None:
    async with running(Countdown, max_sessions=2) as manager, manager.attach(peer="t") as held:
        group = [open_(held, group="g", group_size=2)]
        alone = await open_(held).opened()
        assert group[0].state is SessionState.QUEUED
        group.append(open_(held, group="g", group_size=2))
        await alone.close()
        for opening in group:
            await opening.opened()
            await opening.caller.close()
        again = [open_(held, group="g", group_size=2) for _ in range(2)]
        for opening in again:
            await opening.opened()


async def test_groups_of_different_connections_are_different() -> None:
    async with (
        running(Countdown, max_sessions=2) as manager,
        manager.attach(peer="a") as first,
        manager.attach(peer="b") as second,
    ):
        waiting = open_(first, group="g", group_size=2)
        open_(second, group="g", group_size=2)
        assert waiting.state is SessionState.QUEUED


async def test_a_group_that_never_fits_is_refused_at_once() -> None:
    async with running(Countdown, max_sessions=2) as manager, manager.attach(peer="t") as held:
        with pytest.raises(InvalidRequestError, match="--max-sessions 3"):
            open_(held, group="g", group_size=3)
        open_(held, group="g", group_size=2)
        with pytest.raises(InvalidRequestError, match="has 2 opens, said one before, not 1"):
            open_(held, group="g", group_size=1)


async def test_a_group_of_which_one_leaves_waits_no_more() -> None:
    async with running(Countdown, max_sessions=2) as manager, manager.attach(peer="t") as held:
        await open_(held).opened()
        group = [open_(held, group="g", group_size=2) for _ in range(2)]
        behind = open_(held)
        assert behind.state is SessionState.QUEUED
        group[0].caller.session.cancel(1)
        assert "another open of the group 'g'" in (await group[1].refused()).message
        await behind.opened()


async def test_a_group_that_never_gets_complete_holds_nobody_up() -> None:
    clock = ManualClock()
    async with (
        running(Countdown, max_sessions=2, clock=clock) as manager,
        manager.attach(peer="t") as held,
    ):
        incomplete = open_(held, group="g", group_size=2)
        await open_(held).opened()
        clock.advance(301)
        assert "1 opens of the group 'g' came" in (await incomplete.refused()).message


async def test_incomplete_groups_are_bounded() -> None:
    settings = EngineSettings(max_sessions=2, max_queued=4)
    async with running(Countdown, settings=settings) as manager, manager.attach(peer="t") as held:
        for name in "ab":
            open_(held, group=name, group_size=2)
        with pytest.raises(SessionCapacityError):
            open_(held, group="c", group_size=2)
        await open_(held, group="a", group_size=2).opened()


async def test_a_group_that_may_not_wait_is_refused_whole() -> None:
    settings = EngineSettings(max_sessions=2, max_queued=0)
    async with running(Countdown, settings=settings) as manager, manager.attach(peer="t") as held:
        await open_(held).opened()
        first = open_(held, group="g", group_size=2)
        with pytest.raises(SessionCapacityError):
            open_(held, group="g", group_size=2)
        await first.refused()
        assert len(manager.sessions()) == 1


# Holding and waiting


async def test_who_waits_for_slots_that_it_holds_idle_is_told_so() -> None:
    clock = ManualClock()
    async with (
        running(Countdown, max_sessions=4, clock=clock) as manager,
        manager.attach(peer="other") as other,
        manager.attach(peer="t") as held,
    ):
        callers = [await open_(held).opened() for _ in range(4)]
        clock.advance(60)
        waiting = [open_(held) for _ in range(12)]
        elsewhere = open_(other)
        clock.advance(9)
        await callers[0].step()
        clock.advance(9)
        assert not any(opening.reply.done() for opening in waiting)
        clock.advance(2)
        for opening in waiting:
            error = await opening.refused()
            assert isinstance(error, SessionCapacityError)
            assert "holds 4 of 4 sessions, all idle" in error.message
            assert "--max-sessions 16" in error.message
            assert error.retry_delay_s is None
        assert elsewhere.state is SessionState.QUEUED


async def test_who_uses_one_of_its_sessions_may_wait() -> None:
    clock, gates = ManualClock(), Gates()
    slow = functools.partial(Slow, gates)
    async with (
        running(slow, max_sessions=2, clock=clock) as manager,
        manager.attach(peer="t") as held,
    ):
        first, second = [await open_(held).opened() for _ in range(2)]
        step = first.send(Kind.STEP, {"text": "wait"})
        waiting = open_(held)
        clock.advance(200)
        assert not waiting.reply.done()
        gates.leave.set()
        await received(step)
        await second.close()
        await waiting.opened()


async def test_who_waits_for_slots_of_others_may_wait() -> None:
    clock = ManualClock()
    async with (
        running(Countdown, max_sessions=3, clock=clock) as manager,
        manager.attach(peer="a") as first,
        manager.attach(peer="b") as second,
    ):
        await open_(second).opened()
        for _ in range(2):
            await open_(first).opened()
        pair = [open_(first, group="g", group_size=2) for _ in range(2)]
        alone = open_(first)
        clock.advance(11)
        for opening in pair:
            assert "holds 2 of 3" in (await opening.refused()).message
        assert alone.state is SessionState.QUEUED


# Detached sessions


async def test_a_detached_session_gives_its_slot_to_who_waits_after_a_grace() -> None:
    clock = ManualClock()
    async with (
        running(Countdown, max_sessions=2, clock=clock) as manager,
        manager.attach(peer="t") as held,
    ):
        waiting: list[Opening] = []
        async with manager.attach(peer="gone") as gone:
            for number in range(2):
                resume = Resume(key=f"{KEY} {number}", window_s=60)
                await open_(gone, resume=resume).opened()
            waiting = [open_(held), open_(held)]
            clock.advance(7)
        clock.advance(9)
        assert [opening.state for opening in waiting] == [SessionState.QUEUED] * 2
        waiting[1].caller.session.cancel(1)
        clock.advance(2)
        await waiting[0].opened()
        assert sorted(state.value for state in states(manager)) == ["detached", "ready"]
        at_once = open_(held)
        assert at_once.positions == []
        await at_once.opened()


async def test_no_more_detached_sessions_are_ended_than_are_waited_for() -> None:
    clock, leave = ManualClock(), threading.Event()

    class Leaving(Countdown):
        def close(self) -> None:
            leave.wait(10)

    async with (
        running(Leaving, max_sessions=3, clock=clock) as manager,
        manager.attach(peer="t") as held,
    ):
        async with manager.attach(peer="gone") as gone:
            for number in range(3):
                resume = Resume(key=f"{KEY} {number}", window_s=600)
                await open_(gone, resume=resume).opened()
        waiting = open_(held)
        clock.advance(100)
        assert states(manager).count(SessionState.DETACHED) == 2
        leave.set()
        await waiting.opened()


# Books


async def test_who_waits_is_counted_neither_as_opened_nor_as_ended() -> None:
    async with running(Countdown, max_sessions=1) as manager, manager.attach(peer="t") as held:
        counted = manager.metrics.environments["Countdown"]
        await open_(held).opened()
        open_(held).caller.session.cancel(1)
        assert (counted.opened, counted.ended) == (1, {})
        assert {reason.name: count for reason, count in counted.errors.items()} == {"CANCELLED": 1}


async def test_nothing_is_left_of_a_queue() -> None:
    clock = ManualClock()
    async with running(Countdown, max_sessions=1, clock=clock) as manager:
        async with manager.attach(peer="t") as held:
            for _ in range(5):
                open_(held)
        clock.advance(301)
        assert (clock.waiting, manager.sessions()) == (0, [])
