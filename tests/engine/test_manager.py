from __future__ import annotations

import asyncio
import threading
from typing import Any, ClassVar

import pytest

from openenv_grpc.engine import EngineSettings, SessionManager
from openenv_grpc.errors import (
    DrainingError,
    EnvironmentFactoryError,
    EnvironmentNotFoundError,
    InvalidRequestError,
    NotSupportedError,
    OpenEnvError,
    OutOfOrderError,
    SessionCapacityError,
    SessionClosedError,
    SessionExpiredError,
    SessionNotFoundError,
    TaskNotFoundError,
)
from openenv_grpc.operations import Kind, TaskQuery
from openenv_grpc.sessions import Wait
from tests.engine.talking import (
    CODEC,
    Caller,
    ManualClock,
    definition,
    reason,
    received,
    running,
)
from tests.environments import (
    AsyncCountdown,
    AsyncSlow,
    Count,
    Countdown,
    Counted,
    Described,
    Gates,
    InlineCountdown,
    Lonely,
    NotBuilt,
    SharedCountdown,
    Slow,
    Tasks,
    Toolbox,
)


def openenv_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("openenv ")]


async def no_threads() -> None:
    async with asyncio.timeout(5):
        while openenv_threads():
            await asyncio.sleep(0)


async def entered(gates: Gates) -> None:
    assert await asyncio.to_thread(gates.entered.wait, 5)


def lost_sessions() -> tuple[list[OpenEnvError], Any]:
    lost: list[OpenEnvError] = []
    return lost, lambda _, error: lost.append(error)


# Environments


async def test_the_first_environment_is_the_default() -> None:
    async with running(Countdown, Lonely) as manager:
        assert list(manager.environments) == ["Countdown", "Lonely"]
        assert manager.spec().name == "Countdown"
        assert manager.spec("Lonely").session_limit == 1
        with pytest.raises(EnvironmentNotFoundError, match="Countdown, Lonely"):
            manager.spec("Chess")
        async with manager.attach(peer="test") as attachment:
            with pytest.raises(EnvironmentNotFoundError):
                attachment.open("Chess")
            assert attachment.open("Lonely").spec is manager.spec("Lonely")


# Capacity


async def test_one_session_at_a_time_is_told_with_what_would_allow_more() -> None:
    async with running(Lonely) as manager, manager.attach(peer="test") as attachment:
        attachment.open("")
        with pytest.raises(SessionCapacityError, match="at capacity: 1/1") as caught:
            attachment.open("")
        assert "SUPPORTS_CONCURRENT_SESSIONS = True" in caught.value.message
        group = Wait(timeout_s=1, group="all", group_size=2)
        with pytest.raises(InvalidRequestError, match="SUPPORTS_CONCURRENT_SESSIONS = True"):
            attachment.open("", wait=group)


async def test_an_open_past_capacity_is_refused_at_once_and_a_closed_one_makes_room() -> None:
    async with (
        running(Countdown, max_sessions=2) as manager,
        manager.attach(peer="test") as attachment,
    ):
        first = attachment.open("")
        attachment.open("")
        with pytest.raises(SessionCapacityError) as caught:
            attachment.open("")
        assert caught.value.message == (
            "Server at capacity: 2/2 sessions active. Cannot accept new connections."
        )
        assert caught.value.metadata == {"active_sessions": "2", "max_sessions": "2"}
        await Caller(first).close()
        attachment.open("")


async def test_environments_have_slots_of_their_own() -> None:
    async with running(Countdown, Lonely) as manager, manager.attach(peer="test") as attachment:
        attachment.open("Lonely")
        with pytest.raises(SessionCapacityError):
            attachment.open("Lonely")
        attachment.open("Countdown")


async def test_a_stuck_call_holds_its_slot_where_instances_may_not_live_side_by_side() -> None:
    for concurrent in (True, False):
        gates = Gates()

        class Sticky(Slow):
            SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = concurrent

            def __init__(self, gates: Gates = gates) -> None:
                super().__init__(gates)

        settings = EngineSettings(max_sessions=1, close_timeout_s=0.01)
        async with running(Sticky, settings=settings) as manager:
            async with manager.attach(peer="test") as attachment:
                Caller(attachment.open("")).send(Kind.STEP, {"text": "wait"})
                await entered(gates)
            assert manager.sessions() == []
            async with manager.attach(peer="test") as attachment:
                if concurrent:
                    attachment.open("")
                else:
                    with pytest.raises(SessionCapacityError):
                        attachment.open("")
                gates.leave.set()
                async with asyncio.timeout(5):
                    while manager.stuck_threads:
                        await asyncio.sleep(0)
                if not concurrent:
                    attachment.open("")


async def test_a_peer_that_opens_too_often_is_told_when_it_may_again() -> None:
    clock = ManualClock()
    settings = EngineSettings(opens_per_minute=2)
    async with running(Countdown, settings=settings, clock=clock) as manager:
        async with manager.attach(peer="ipv4:10.0.0.1:4000") as attachment:
            attachment.open("")
            attachment.open("")
            with pytest.raises(SessionCapacityError, match="--opens-per-minute") as caught:
                attachment.open("")
            assert caught.value.retry_delay_s == 30
            assert manager.metrics.opens_limited == 1
            clock.advance(30)
            attachment.open("")
        async with manager.attach(peer="ipv4:127.0.0.1:4000") as attachment:
            for _ in range(10):
                attachment.open("")


async def test_too_many_stuck_calls_turn_health_until_they_return() -> None:
    gates = Gates()
    settings = EngineSettings(close_timeout_s=0.01, max_stuck=0)
    async with running(lambda: Slow(gates), settings=settings) as manager:
        assert manager.serving
        async with asyncio.timeout(5), manager.attach(peer="test") as attachment:
            Caller(attachment.open("")).send(Kind.STEP, {"text": "wait"})
            await entered(gates)
        assert (manager.stuck_threads, manager.serving) == (1, False)
        gates.leave.set()
        async with asyncio.timeout(5):
            while not manager.serving:
                await manager.health_changed()
        assert manager.stuck_threads == 0


async def test_a_server_measures_what_its_sessions_take() -> None:
    gates = Gates()
    async with running(lambda: Slow(gates)) as manager, manager.attach(peer="test") as attachment:
        caller = Caller(attachment.open(""))
        await caller.do(Kind.RESET, {}, request_id=1)
        caller.send(Kind.STEP, {"text": "wait"})
        await entered(gates)
        usage = manager.usage()
        gates.leave.set()
    assert (usage.operations_in_flight, usage.kept_records) == (1, 0)
    assert usage.record_bytes > 0


# Attachments


@pytest.mark.parametrize("factory", [Countdown, SharedCountdown, InlineCountdown, AsyncCountdown])
async def test_a_hundred_connections_that_end_leave_no_session_and_no_thread(
    factory: type[Countdown],
) -> None:
    async with running(factory) as manager:
        for number in range(100):
            async with manager.attach(peer=str(number)) as attachment:
                caller = Caller(attachment.open(""))
                await caller.reset()
                if number % 2:
                    caller.send(Kind.STEP, {})  # nobody waits for it
        assert manager.sessions() == []
        await no_threads()


@pytest.mark.parametrize("slow", [Slow, AsyncSlow], ids=["thread", "async"])
async def test_an_abandoned_connection_closes_its_environment_once_a_step_has_returned(
    slow: Any,
) -> None:
    gates = Gates()
    async with running(lambda: slow(gates)) as manager:

        async def connection() -> None:
            async with manager.attach(peer="test") as attachment:
                Caller(attachment.open("")).send(Kind.STEP, {"text": "wait"})
                await entered(gates)
                await asyncio.Event().wait()

        task = asyncio.create_task(connection())
        await entered(gates)
        task.cancel()
        gates.leave.set()
        async with asyncio.timeout(5):
            await asyncio.wait({task})
        assert task.cancelled()
        assert (manager.sessions(), gates.closed) == ([], 1)


async def test_leaving_waits_no_longer_than_the_limit() -> None:
    gates = Gates()
    settings = EngineSettings(close_timeout_s=0.01)
    async with running(lambda: Slow(gates), settings=settings) as manager:
        async with asyncio.timeout(5), manager.attach(peer="test") as attachment:
            step = Caller(attachment.open("")).send(Kind.STEP, {"text": "wait"})
            await entered(gates)
        assert await reason(step) == "SESSION_CLOSED"
        assert (manager.stuck_threads, gates.closed) == (1, 0)
        gates.leave.set()
        async with asyncio.timeout(5):
            while manager.stuck_threads:
                await asyncio.sleep(0)
        assert gates.closed == 1
        await no_threads()


async def test_a_constructor_that_still_runs_when_its_connection_ends_is_closed_once() -> None:
    gates = Gates()

    class SlowToBuild(Slow):
        def __init__(self) -> None:
            super().__init__(gates)
            gates.entered.set()
            gates.leave.wait(10)

    async with running(SlowToBuild) as manager:
        async with manager.attach(peer="test") as attachment:
            reset = Caller(attachment.open("")).send(Kind.RESET)
            await entered(gates)
            gates.leave.set()
        assert await reason(reset) == "SESSION_CLOSED"
        assert gates.closed == 1


async def test_leaving_tells_nobody_that_the_session_is_lost() -> None:
    lost, on_lost = lost_sessions()
    async with running(Countdown) as manager, manager.attach(peer="test") as attachment:
        await Caller(attachment.open("", on_lost=on_lost)).reset()
    assert lost == []


async def test_sessions_of_a_connection_share_a_thread_where_their_class_says_so() -> None:
    async with running(SharedCountdown) as manager:
        async with manager.attach(peer="a") as first, manager.attach(peer="b") as second:
            for attachment in (first, first, first, second):
                await Caller(attachment.open("")).reset()
            assert len(openenv_threads()) == 2
        await no_threads()


async def test_a_class_may_have_all_its_sessions_on_one_thread() -> None:
    threads: set[int] = set()

    class Single(Countdown):
        REQUIRES_SINGLE_THREAD_EXECUTOR: ClassVar[bool] = True

        def __init__(self) -> None:
            super().__init__()
            threads.add(threading.get_ident())

        def close(self) -> None:
            threads.add(threading.get_ident())

    async with running(Single) as manager:
        for _ in range(3):
            async with manager.attach(peer="test") as attachment:
                for _ in range(2):
                    await Caller(attachment.open("")).reset()
        assert len(threads) == 1
    await no_threads()


async def test_a_stuck_session_leaves_a_shared_thread_to_nobody_new() -> None:
    gates = Gates()

    class SharedSlow(Slow):
        ISOLATION: ClassVar[str] = "shared"

        def __init__(self) -> None:
            super().__init__(gates)

    clock = ManualClock()
    async with (
        running(SharedSlow, clock=clock) as manager,
        manager.attach(peer="test") as attachment,
    ):
        stuck, other = Caller(attachment.open("")), Caller(attachment.open(""))
        await other.reset()
        step = stuck.send(Kind.STEP, {"text": "wait"}, timeout_s=1)
        await entered(gates)
        clock.advance(1)
        await received(step)
        clock.advance(10)
        await asyncio.wait({stuck.session.closed})  # type: ignore[attr-defined]
        fresh = Caller(attachment.open(""))
        await fresh.reset()
        waiting = other.send(Kind.STEP, {})
        gates.leave.set()
        assert (await received(waiting)).error is None
    assert gates.closed == 3
    await no_threads()


async def test_an_open_with_a_number_other_than_one_is_refused() -> None:
    async with (
        running(Countdown, max_sessions=1) as manager,
        manager.attach(peer="test") as attachment,
    ):
        operation = Caller(None).operation(Kind.OPEN, request_id=2)  # type: ignore[arg-type]
        for _ in range(2):
            with pytest.raises(OutOfOrderError):
                attachment.open("", operation=operation, deliver=print)
        attachment.open("")


# Leases


async def test_a_lease_lives_without_a_connection_until_it_is_closed() -> None:
    async with running(Countdown) as manager:
        caller = Caller(manager.lease("", peer="script"))
        await caller.reset()
        assert manager.find(caller.session.id) is caller.session
        await caller.close()
        with pytest.raises(SessionNotFoundError):
            manager.find(caller.session.id)
        assert manager.sessions() == []


async def test_a_lease_can_be_opened_by_an_operation() -> None:
    async with running(Countdown) as manager:
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        operation = Caller(None).operation(Kind.OPEN, request_id=0)  # type: ignore[arg-type]
        manager.lease("", peer="script", operation=operation, deliver=reply.set_result)
        assert (await received(reply)).error is None


async def test_a_lease_ends_when_it_idles_for_as_long_as_was_said() -> None:
    clock = ManualClock()
    async with running(Countdown, clock=clock) as manager:
        short = Caller(manager.lease("", peer="a", idle_timeout_s=30))
        usual = Caller(manager.lease("", peer="b"))
        await short.reset()
        clock.advance(31)
        with pytest.raises(SessionExpiredError):
            await short.step()
        clock.advance(500)
        await usual.reset()
        clock.advance(599)
        await usual.step()
        clock.advance(601)
        with pytest.raises(SessionExpiredError):
            await usual.step()
        assert clock.waiting == 0


async def test_a_released_session_outlives_its_connection() -> None:
    clock = ManualClock()
    async with running(Countdown, clock=clock) as manager:
        async with manager.attach(peer="test") as attachment:
            caller = Caller(attachment.open(""))
            await caller.reset()
            attachment.release(caller.session)
        await caller.step()
        clock.advance(601)
        with pytest.raises(SessionExpiredError):
            await caller.step()


# Idling


async def test_an_idle_session_ends_and_its_holder_is_told_once() -> None:
    clock = ManualClock()
    lost, on_lost = lost_sessions()
    async with (
        running(Countdown, clock=clock, session_timeout_s=60) as manager,
        manager.attach(peer="test") as attachment,
    ):
        caller = Caller(attachment.open("", on_lost=on_lost))
        for _ in range(3):
            await caller.reset()
            clock.advance(59)
        assert lost == []
        clock.advance(2)
        assert [type(error) for error in lost] == [SessionExpiredError]
        assert lost[0].session_lost
        with pytest.raises(SessionExpiredError):
            await caller.step()
    assert len(lost) == 1


async def test_the_settings_limit_holds_where_a_definition_says_nothing() -> None:
    clock = ManualClock()
    settings = EngineSettings(session_timeout_s=5)
    async with (
        running(Countdown, clock=clock, settings=settings) as manager,
        manager.attach(peer="test") as attachment,
    ):
        caller = Caller(attachment.open(""))
        clock.advance(6)
        with pytest.raises(SessionExpiredError):
            await caller.reset()


async def test_a_running_operation_is_never_idle() -> None:
    clock, gates = ManualClock(), Gates()
    async with (
        running(lambda: Slow(gates), clock=clock, session_timeout_s=60) as manager,
        manager.attach(peer="test") as attachment,
    ):
        caller = Caller(attachment.open(""))
        step = caller.send(Kind.STEP, {"text": "wait"})
        await entered(gates)
        clock.advance(1000)
        gates.leave.set()
        assert (await received(step)).error is None
        clock.advance(59)
        await caller.step()
        clock.advance(61)
        with pytest.raises(SessionExpiredError):
            await caller.step()


# Requests that need an environment for themselves


async def test_a_request_gets_an_environment_of_its_own_and_no_slot() -> None:
    gates = Gates()
    async with running(lambda: Slow(gates)) as manager, manager.attach(peer="test") as attachment:
        await Caller(attachment.open("")).reset()
        async with manager.transient() as session:
            assert (await Caller(session).step())["left"] == -1
            assert len(manager.sessions()) == 1
        assert gates.closed == 1


async def test_requests_to_what_supports_no_concurrency_take_turns() -> None:
    at_once: list[int] = []
    alive = 0

    class Counting(Lonely):
        def __init__(self) -> None:
            nonlocal alive
            super().__init__()
            alive += 1
            at_once.append(alive)

        def close(self) -> None:
            nonlocal alive
            alive -= 1

    async with running(Counting) as manager:

        async def request() -> None:
            async with manager.transient() as session:
                await Caller(session).reset()

        async with asyncio.timeout(5), asyncio.TaskGroup() as group:
            for _ in range(5):
                group.create_task(request())
    assert at_once == [1] * 5


async def test_metadata_of_the_base_class_needs_no_instance() -> None:
    async with running(Countdown) as manager:
        before = threading.active_count()
        metadata = await manager.metadata()
        assert (metadata.name, metadata.description, metadata.version) == (
            "Countdown",
            "Countdown environment",
            "1.0.0",
        )
        assert threading.active_count() == before


async def test_metadata_of_its_own_is_asked_once() -> None:
    Described.built = 0
    async with running(Described) as manager:
        first, second = await asyncio.gather(manager.metadata(), manager.metadata())
        assert first == second == await manager.metadata()
        assert (first.description, Described.built) == ("A countdown", 1)


async def test_metadata_that_could_not_be_asked_is_asked_again() -> None:
    attempts: list[int] = []

    def build() -> Described:
        attempts.append(1)
        if len(attempts) == 1:
            raise RuntimeError("not yet")
        return Described()

    async with running(build) as manager:
        with pytest.raises(EnvironmentFactoryError):
            await manager.metadata()
        assert (await manager.metadata()).name == "described"


async def test_tasks_are_asked_of_the_environment() -> None:
    async with running(Tasks) as manager:
        assert manager.spec().has_tasks

        async def ask(method: str, *arguments: object) -> Any:
            async with manager.transient() as session:
                query = TaskQuery(method=method, arguments=arguments)
                return await Caller(session).do(Kind.TASKS, query)

        assert await ask("list_splits") == ["train", "test"]
        assert await ask("list_tasks", "train") == [{"id": "train-0"}]
        assert await ask("get_task", "test", 1) == {"id": "test-1"}
        with pytest.raises(TaskNotFoundError, match="Invalid task index"):
            await ask("get_task", "test", 2)
        for method in ("num_tasks", "get_task_range"):
            with pytest.raises(
                NotSupportedError, match=f"{method} is not supported for this environment"
            ):
                await ask(method, "train")


# What operators do


async def test_an_operator_ends_a_session_and_its_holder_is_told() -> None:
    lost, on_lost = lost_sessions()
    async with running(Countdown) as manager, manager.attach(peer="test") as attachment:
        session = attachment.open("", on_lost=on_lost)
        caller = Caller(session)
        await caller.reset()
        manager.end_session(session.id, SessionClosedError("closed by an operator"))
        assert [error.message for error in lost] == ["closed by an operator"]
        with pytest.raises(SessionClosedError, match="by an operator"):
            await caller.step()
        with pytest.raises(SessionNotFoundError):
            manager.end_session(session.id, SessionClosedError("again"))


async def test_a_reply_that_says_so_takes_the_place_of_the_message_that_a_session_is_lost() -> None:
    lost, on_lost = lost_sessions()
    gates = Gates()
    async with running(lambda: Slow(gates)) as manager, manager.attach(peer="test") as attachment:
        session = attachment.open("", on_lost=on_lost)
        step = Caller(session).send(Kind.STEP, {"text": "wait"})
        await entered(gates)
        manager.end_session(session.id, SessionClosedError("closed by an operator"))
        error = (await received(step)).error
        assert error is not None
        assert error.session_lost
        assert lost == []
        gates.leave.set()


async def test_sessions_are_listed_oldest_first() -> None:
    async with running(Countdown) as manager, manager.attach(peer="test") as attachment:
        opened = [attachment.open("").id for _ in range(3)]
        assert [info.session_id for info in manager.sessions()] == opened


async def test_a_draining_host_goes_on_with_episodes_and_starts_none() -> None:
    async with running(Countdown) as manager, manager.attach(peer="test") as attachment:
        caller = Caller(attachment.open(""))
        await caller.reset()
        assert not manager.draining
        assert manager.drain() == 1
        assert manager.draining
        with pytest.raises(DrainingError):
            attachment.open("")
        with pytest.raises(DrainingError):
            manager.lease("", peer="test")
        with pytest.raises(DrainingError):
            await caller.reset()
        await caller.step()
        await caller.close()


async def test_a_drain_waits_for_episodes_and_not_for_sessions_that_are_merely_open() -> None:
    clock = ManualClock()
    async with running(Countdown, clock=clock) as manager, manager.attach(peer="test") as held:
        caller, idle = Caller(held.open("")), Caller(held.open(""))
        await idle.do(Kind.STATE)
        await caller.reset(start=2)
        manager.drain()
        clock.advance(60)
        drained = asyncio.ensure_future(manager.until_drained())
        assert [info.under_way for info in manager.sessions()] == [True, False]
        await caller.step()
        clock.advance(60)
        await asyncio.sleep(0.3)
        assert not drained.done()
        assert (await caller.step())["done"]
        assert not any(info.under_way for info in manager.sessions())
        await asyncio.sleep(0.3)
        assert not drained.done()  # its client may still ask for the verdict
        clock.advance(1)
        async with asyncio.timeout(5):
            await drained
        assert len(manager.sessions()) == 2


@pytest.mark.parametrize("kind", [Kind.STEP, Kind.CALL_TOOL], ids=lambda kind: kind.value)
async def test_who_acts_without_a_reset_is_amid_an_episode(kind: Kind) -> None:
    environment = Countdown if kind is Kind.STEP else Toolbox
    payload: Any = {"by": -1} if kind is Kind.STEP else ("add", {"a": 1, "b": 2})
    async with running(environment) as manager:
        caller = Caller(manager.lease("", peer="test"))
        await caller.do(kind, payload)
        (info,) = manager.sessions()
        assert info.under_way


async def test_a_tool_that_ends_the_episode_ends_what_a_drain_waits_for() -> None:
    async with running(Toolbox) as manager:
        caller = Caller(manager.lease("", peer="test"))
        await caller.reset()
        await caller.do(Kind.CALL_TOOL, ("submit", {"answer": "42"}))
        (info,) = manager.sessions()
        assert not info.under_way


async def test_a_drain_waits_for_what_runs_in_whatever_session() -> None:
    gates = Gates()
    async with running(lambda: Slow(gates)) as manager:
        async with manager.transient() as session:
            stepping = Caller(session).send(Kind.STEP, {"text": "wait"})
            await entered(gates)
            manager.drain()
            drained = asyncio.ensure_future(manager.until_drained())
            await asyncio.sleep(0.3)
            assert not drained.done()
            gates.leave.set()
            assert (await received(stepping)).error is None
        async with asyncio.timeout(5):
            await drained


async def test_stopping_closes_every_session() -> None:
    gates = Gates()
    async with running(lambda: Slow(gates)) as manager:
        caller = Caller(manager.lease("", peer="script"))
        await caller.reset()
    assert (manager.sessions(), gates.closed) == ([], 1)
    with pytest.raises(DrainingError):
        await caller.step()
    with pytest.raises(DrainingError):
        manager.lease("", peer="script")


async def test_stopping_tells_who_holds_a_session() -> None:
    lost, on_lost = lost_sessions()
    manager = SessionManager([definition(Countdown)])
    stop = asyncio.Event()
    opened = asyncio.Event()

    async def connection() -> None:
        async with manager.attach(peer="test") as attachment:
            await Caller(attachment.open("", on_lost=on_lost)).reset()
            opened.set()
            await stop.wait()

    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        async with manager:
            group.create_task(connection())
            await opened.wait()
        stop.set()
    assert [type(error) for error in lost] == [DrainingError]


async def test_a_thread_that_never_returns_does_not_keep_the_host_from_stopping() -> None:
    gates = Gates()
    settings = EngineSettings(close_timeout_s=0.01)
    async with asyncio.timeout(5):
        async with running(lambda: Slow(gates), settings=settings) as manager:
            Caller(manager.lease("", peer="test")).send(Kind.STEP, {"text": "wait"})
            await entered(gates)
    (name,) = openenv_threads()
    assert name.startswith("openenv <lambda> ")
    gates.leave.set()
    await no_threads()


async def test_what_a_constructor_does_with_the_loop_is_its_own_affair() -> None:
    class OwnLoop(Countdown):
        def step(self, action: Count, timeout_s: float | None = None) -> Counted:
            asyncio.run(asyncio.sleep(0))
            return super().step(action, timeout_s)

    async with running(OwnLoop) as manager, manager.attach(peer="test") as attachment:
        caller = Caller(attachment.open(""), codec=CODEC)
        assert (await caller.step())["left"] == -1


async def test_a_failed_build_leaves_neither_slot_nor_thread() -> None:
    async with running(NotBuilt, max_sessions=1) as manager:
        for _ in range(3):
            async with manager.attach(peer="test") as attachment:
                with pytest.raises(EnvironmentFactoryError):
                    await Caller(attachment.open("")).reset()
        await no_threads()
