"""What a session in a process promises, with real processes."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from openenv_grpc.cli.logs import TextFormatter
from openenv_grpc.engine import EngineSettings, SessionManager
from openenv_grpc.errors import (
    ConfigurationError,
    Effect,
    EnvironmentCrashedError,
    EnvironmentFactoryError,
    EnvironmentFailedError,
    InternalError,
    InvalidActionError,
    OpenEnvError,
    OperationCancelledError,
)
from openenv_grpc.events import event_of, facts_of
from openenv_grpc.operations import Kind, Operation, Reply, TaskQuery
from openenv_grpc.sessions import Attachment, CancelEffect, SessionPort
from openenv_grpc.tools import CallToolAction, CallToolObservation
from tests.engine.process_environments import (
    AsyncIsolated,
    CrashesWhenBuilt,
    Entered,
    FailsWhenBuilt,
    HeldTools,
    Isolated,
    NeverClosed,
    Noted,
    Seen,
    gone,
    lives,
)
from tests.engine.talking import CODEC, Caller, definition, received, running, send
from tests.environments import Countdown, Described, Tasks, Toolbox


@asynccontextmanager
async def served(
    factory: Callable[[], Any], *, fields: dict[str, Any] | None = None, **settings: Any
) -> AsyncIterator[SessionManager]:
    """A manager that starts a process for each session."""
    engine = EngineSettings(**{"process_pool_size": 0, **settings})
    given = {"isolation": "process", "observation_type": Seen, **(fields or {})}
    async with running(factory, settings=engine, **given) as manager:
        yield manager


@asynccontextmanager
async def isolated(factory: Callable[[], Any] = Isolated, **options: Any) -> AsyncIterator[Caller]:
    """A session in a process."""
    async with served(factory, **options) as manager, manager.attach(peer="test") as attachment:
        yield await opened_in(attachment)


async def opened_in(attachment: Attachment, **options: Any) -> Caller:
    """Opens a session and waits for its process, which takes a while on a busy machine."""
    opening: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
    operation = Operation(kind=Kind.OPEN, codec=CODEC)
    session = attachment.open("", operation=operation, deliver=opening.set_result, **options)
    async with asyncio.timeout(60):
        await opening
    return Caller(session)


@asynccontextmanager
async def held(
    caller: Caller, text: str, **fields: Any
) -> AsyncIterator[tuple[Operation, asyncio.Future[Reply]]]:
    """A step that has begun and does not end."""
    with Entered() as entered:
        step = caller.operation(Kind.STEP, {"text": text}, **fields)
        reply = send(caller.session, step)
        await entered.wait()
    yield step, reply


# Its use


async def test_an_episode_runs_on_the_main_thread_of_a_process_of_its_own() -> None:
    async with served(Isolated) as manager:
        async with manager.attach(peer="test") as attachment:
            caller, other = await opened_in(attachment), await opened_in(attachment)
            elsewhere = (await other.reset())["pid"]
            first = await caller.reset(start=2)
            stepped = await caller.step()
            assert first["pid"] == stepped["pid"]
            assert len({first["pid"], elsewhere, os.getpid()}) == 3
            assert first["main_thread"]
            assert (first["left"], stepped["left"]) == (2, 1)
            state = await caller.do(Kind.STATE)
            assert (state["step_count"], state["episode_id"]) == (1, first["episode_id"])
            info = caller.session.info()
            assert (info.environment_type, info.step_count) == ("Isolated", 1)
            assert info.under_way
            assert (await caller.step("finish"))["done"]
            assert not caller.session.info().under_way
            assert await caller.close() == {"step_count": 2}
            await gone(first["pid"])
        await gone(elsewhere)


async def test_an_awaited_environment_runs_on_a_loop_of_its_process() -> None:
    async with isolated(AsyncIsolated) as caller:
        await caller.reset(start=2)
        stepped = await caller.step()
        assert (stepped["left"], stepped["pid"] != os.getpid()) == (1, True)
        assert (await caller.do(Kind.STATE))["step_count"] == 1
        assert caller.session.spec.isolation == "process"


async def test_what_an_environment_raises_is_told_and_its_traceback_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with isolated() as caller:
        await caller.reset()
        reply = await caller.ask(Kind.STEP, {"text": "raise"})
        assert isinstance(reply.error, EnvironmentFailedError)
        assert reply.error.metadata["exception_type"] == "ValueError"
        assert reply.error.metadata["exception_text"] == "no such move \udcff"
        assert (reply.error.effect, reply.error.session_lost) == (Effect.UNKNOWN, False)
        assert json.loads(reply.content) == {"error": "ENVIRONMENT_FAILED"}
        assert (await caller.step("fork"))["left"] == 1
        assert (await caller.step())["left"] == 0
    record = next(record for record in caplog.records if "environment failed" in record.message)
    assert record.name == "openenv_grpc.engine.performing"
    assert event_of(record) == "environment failed"
    assert facts_of(record) == {
        "session_id": caller.session.id,
        "environment": caller.session.spec.name,
        "operation": "step",
    }
    assert record.exc_text is not None
    assert 'raise ValueError("no such move' in record.exc_text
    assert "from elsewhere" not in caplog.text  # forked processes write to standard error


async def test_what_an_environment_logs_is_of_its_session(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with isolated() as caller:
        await caller.step("log")
        (record,) = [record for record in caplog.records if "dragon" in record.message]
        assert facts_of(record) == {"session_id": caller.session.id}
        assert TextFormatter("%(message)s").format(record) == (
            f"the dragon wakes session_id={caller.session.id}"
        )


async def test_what_was_wrong_is_told_as_it_would_be_without_a_process() -> None:
    async with isolated(redact_errors=True) as caller:
        with pytest.raises(InvalidActionError) as caught:
            await caller.do(Kind.STEP, {"by": "many"})
        found = [(broken.path, broken.type) for broken in caught.value.violations]
        assert found == [("/by", "int_parsing")]
        with pytest.raises(EnvironmentFailedError, match="log tells how"):
            await caller.step("raise")
        unknown = await caller.ask(Kind.STEP, {"text": threading.Lock()})  # cannot be pickled
        assert isinstance(unknown.error, InternalError)
        assert (await caller.reset())["left"] == 3


async def test_arrays_of_any_size_go_through_whole() -> None:
    async with isolated() as caller:
        frame = (await caller.step("frame"))["frame"]
        assert [row[0] for row in frame] == [512.0 * row for row in range(512)]
        text = "text " * 50_000
        assert (await caller.step(text))["text"] == text
        first = caller.send(Kind.STEP, {"text": "frame"})
        dropped = caller.operation(Kind.STEP, {"text": text})
        reply = send(caller.session, dropped)
        assert caller.session.cancel_operation(dropped) is CancelEffect.DROPPED
        assert (await received(reply)).error is not None
        assert json.loads((await received(first)).content)["frame"] == frame


async def test_tools_tasks_and_metadata_are_asked_in_a_process() -> None:
    tools = {"action_type": CallToolAction, "observation_type": CallToolObservation}
    async with isolated(Toolbox, fields=tools) as caller:
        assert "add" in (await caller.do(Kind.LIST_TOOLS))["tools"]
        assert (await caller.do(Kind.CALL_TOOL, ("add", {"a": 1, "b": 2})))["data"] == 3
        await caller.do(Kind.CALL_TOOL, ("submit", {"answer": "42"}))
        assert (await caller.do(Kind.EVALUATE))["reward"] == 1.0
    async with isolated(Tasks) as caller:
        for method, arguments in (("list_splits", ()), ("list_tasks", ("train",))):
            query = TaskQuery(method=method, arguments=arguments)
            assert await caller.do(Kind.TASKS, query)
    built = Described.built
    async with served(Described) as manager:
        assert (await manager.metadata()).version == "2"
    assert Described.built == built  # not here


async def test_a_connection_to_tools_is_held_by_one_task_of_the_process(tmp_path: Path) -> None:
    note = tmp_path / "note"
    async with isolated(partial(HeldTools, note)) as caller:
        await caller.reset()
        assert not note.exists()
    assert note.read_text() == "left"


# Crashes


async def test_a_crash_is_one_error_on_one_session() -> None:
    async with served(Isolated) as manager, manager.attach(peer="test") as attachment:
        other = await opened_in(attachment)
        await other.reset()
        for how, exit_code, told in (
            ("leave", 7, "ended with exit status 7"),
            ("exit", 5, "ended with exit status 5"),
            ("fault", -11, "was ended by SIGSEGV"),
            ("kill", -9, "was ended by SIGKILL"),
        ):
            lost: list[OpenEnvError] = []
            note = partial(_note_loss, lost)
            broken = await opened_in(attachment, on_lost=note)
            crash, queued = broken.send(Kind.STEP, {"text": how}), broken.send(Kind.STATE)
            error = (await received(crash)).error
            assert isinstance(error, EnvironmentCrashedError)
            assert told in error.message
            assert error.metadata == {"exit_code": str(exit_code)}
            assert (error.effect, error.session_lost) == (Effect.UNKNOWN, True)
            behind = (await received(queued)).error
            assert isinstance(behind, EnvironmentCrashedError)
            assert behind.effect is Effect.NONE
            with pytest.raises(EnvironmentCrashedError):
                await broken.step()
            assert lost == []  # the outcomes have told it
            await other.step()
            assert [info.session_id for info in manager.sessions()] == [other.session.id]
        assert (await other.step())["left"] == -2


def _note_loss(lost: list[OpenEnvError], _: SessionPort, error: OpenEnvError) -> None:
    lost.append(error)


async def test_a_process_that_ends_while_nothing_is_asked_takes_its_session_along() -> None:
    async with served(Isolated) as manager, manager.attach(peer="test") as attachment:
        lost: asyncio.Future[OpenEnvError] = asyncio.get_running_loop().create_future()
        caller = await opened_in(attachment, on_lost=lambda _, error: lost.set_result(error))
        os.kill((await caller.reset())["pid"], 9)
        async with asyncio.timeout(5):
            error = await lost
        assert (error.reason.name, error.session_lost) == ("ENVIRONMENT_CRASHED", True)
        assert manager.sessions() == []


async def test_twenty_crashes_leave_nothing_behind() -> None:
    def counted() -> tuple[int, int, list[str]]:
        shared = sorted(path.name for path in Path("/dev/shm").glob("*"))
        return len(os.listdir("/proc/self/fd")), threading.active_count(), shared

    async with asyncio.timeout(90):
        while any(each.name == "openenv worker process" for each in threading.enumerate()):
            await asyncio.sleep(0.005)  # that of the test before, which is about to end
        files, threads, shared = counted()
        async with (
            served(Isolated, process_pool_size=1) as manager,
            manager.attach(peer="test") as attachment,
        ):
            for _ in range(20):
                caller = await opened_in(attachment)
                assert (await caller.step("frame"))["frame"]
                assert (await caller.ask(Kind.STEP, {"text": "leave"})).error is not None
            # The one that waits has a thread, and with it a socket, a pipe and a file.
            while counted() != (files + 3, threads + 1, shared):
                await asyncio.sleep(0.005)
            assert len(children()) == 1
        while counted() != (files, threads, shared):
            await asyncio.sleep(0.005)
        assert children() == []


def children() -> list[str]:
    """Lists the processes of this one, those included that have ended and are not reaped."""
    listed = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    return [pid for path in listed for pid in path.read_text().split()]


async def children_are(count: int) -> list[str]:
    """Waits until there are so many: threads start and reap them."""
    async with asyncio.timeout(5):
        while len(found := children()) != count:
            await asyncio.sleep(0.005)
    return found


@pytest.mark.parametrize("end", ["crash", "close"])
async def test_what_an_environment_has_started_ends_with_its_process(end: str) -> None:
    async with isolated() as caller:
        started = (await caller.step("start"))["pid"]
        assert lives(started)
        await (caller.ask(Kind.STEP, {"text": "leave"}) if end == "crash" else caller.close())
        await gone(started)


# Deadlines, cancellation, limits


async def test_a_step_that_never_ends_is_killed_after_its_grace() -> None:
    lost: asyncio.Future[OpenEnvError] = asyncio.get_running_loop().create_future()
    async with (
        served(Isolated, stuck_grace_s=0.05) as manager,
        manager.attach(peer="test") as attachment,
    ):
        caller = await opened_in(attachment, on_lost=lambda _, error: lost.set_result(error))
        pid = (await caller.reset())["pid"]
        async with held(caller, "freeze", timeout_s=1) as (_, reply):
            error = (await received(reply)).error
            assert error is not None
            assert (error.reason.name, error.effect) == ("DEADLINE_EXCEEDED", Effect.UNKNOWN)
        async with asyncio.timeout(5):
            assert (await lost).reason.name == "ENVIRONMENT_CRASHED"
        await gone(pid)
        assert manager.stuck_threads == 0


async def test_cancelling_what_runs_kills_its_process_and_says_so() -> None:
    async with isolated() as caller:
        pid = (await caller.reset())["pid"]
        async with held(caller, "compute") as (step, reply):
            queued = caller.send(Kind.STATE)
            assert caller.session.cancel_operation(step) is CancelEffect.STOPPED
            error = (await received(reply)).error
            assert isinstance(error, OperationCancelledError)
            assert (error.effect, error.session_lost) == (Effect.UNKNOWN, True)
            behind = (await received(queued)).error
            assert behind is not None
            assert (behind.effect, behind.session_lost) == (Effect.NONE, True)
        await gone(pid)


async def test_an_awaited_step_is_cancelled_in_its_process_and_the_session_lives() -> None:
    async with isolated(AsyncIsolated) as caller:
        await caller.reset()
        async with held(caller, "wait") as (step, reply):
            assert caller.session.cancel_operation(step) is CancelEffect.STOPPED
            error = (await received(reply)).error
            assert error is not None
            assert (error.reason.name, error.session_lost) == ("CANCELLED", False)
        async with held(caller, "wait", timeout_s=0.2) as (_, reply):
            error = (await received(reply)).error
            assert error is not None
            assert (error.reason.name, error.session_lost) == ("DEADLINE_EXCEEDED", False)
        assert (await caller.step())["left"] == 2
        with pytest.raises(EnvironmentCrashedError, match="exit status 5"):
            await caller.step("exit")


async def test_memory_beyond_the_limit_is_an_error_of_the_environment() -> None:
    async with isolated(worker_memory_bytes=4 * 2**30) as caller:
        await caller.reset()
        with pytest.raises(EnvironmentFailedError, match="MemoryError"):
            await caller.step("grab")
        assert (await caller.step())["left"] == 1


# The beginning and the end


@pytest.mark.parametrize(
    ("factory", "logged"),
    [(FailsWhenBuilt, "OSError: no screen"), (CrashesWhenBuilt, "exit status 9")],
    ids=["raises", "crashes"],
)
async def test_an_environment_that_cannot_be_built_takes_no_slot(
    factory: Any, logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with isolated(factory) as caller:
        with pytest.raises(EnvironmentFactoryError) as caught:
            await caller.reset()
        assert caught.value.session_lost
        assert logged in caught.value.message
        assert "Traceback" not in caught.value.message
    assert logged in caplog.text


async def test_an_environment_that_cannot_be_imported_there_is_not_tried_for_ever(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OPENENV_TEST_BREAKS_IMPORT", "yes")
    async with isolated() as caller:
        with pytest.raises(EnvironmentFactoryError):
            await caller.reset()
        assert "this module cannot be imported today" in caplog.text
        await children_are(0)


async def test_leaving_closes_the_environment_in_its_process_once(tmp_path: Path) -> None:
    note = tmp_path / "note"
    async with isolated(partial(Noted, note)) as caller:
        pid = (await caller.reset())["pid"]
    assert note.read_text() == "closed"
    assert not lives(pid)
    assert children() == []


@pytest.mark.parametrize("busy", ["closing", "stepping"])
async def test_what_does_not_come_to_an_end_is_killed(busy: str) -> None:
    async with isolated(NeverClosed, close_timeout_s=0.05) as caller:
        pid = (await caller.reset())["pid"]
        if busy == "stepping":
            async with held(caller, "compute"):
                pass
    assert not lives(pid)


async def test_a_session_can_end_while_its_process_starts() -> None:
    async with served(Isolated, close_timeout_s=0.05) as manager:
        async with manager.attach(peer="test") as attachment:
            reset = Caller(attachment.open("")).send(Kind.RESET)
            opening = Operation(kind=Kind.OPEN, codec=CODEC)
            reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
            opened = attachment.open("", operation=opening, deliver=reply.set_result)
            assert opened.cancel_operation(opening) is CancelEffect.STOPPED
            error = (await received(reply)).error
            assert error is not None
            assert (error.reason.name, error.session_lost) == ("CANCELLED", True)
        assert (await received(reset)).error is not None
    assert children() == []


async def test_processes_wait_for_sessions_with_the_environment_imported() -> None:
    async with served(Isolated, process_pool_size=1) as manager:
        waiting = await children_are(1)
        async with manager.attach(peer="test") as attachment:
            first = await (await opened_in(attachment)).reset()
            assert str(first["pid"]) == waiting[0]
            await children_are(2)  # one more waits
            second = await (await opened_in(attachment)).reset()
            assert str(second["pid"]) in children()


async def test_an_environment_of_one_session_has_one_process_waiting() -> None:
    async with served(Isolated, process_pool_size=3, fields={"max_sessions": 1}):
        await children_are(1)


def test_what_another_process_cannot_import_is_refused() -> None:
    class Local(Countdown):
        pass

    for factory in (Local, lambda: Countdown()):
        fields = {"isolation": "process", "observation_type": Seen}
        with pytest.raises(ConfigurationError, match="another process can import"):
            SessionManager([definition(factory, **fields)])
