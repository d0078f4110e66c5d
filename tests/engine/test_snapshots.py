"""What a session saves, and what others that go on from there have of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from openenv_grpc.engine import EngineSettings, SessionManager
from openenv_grpc.errors import (
    EnvironmentCrashedError,
    EnvironmentFailedError,
    InvalidRequestError,
    NotSupportedError,
    OpenEnvError,
    OutcomeTooLargeError,
    SnapshotNotFoundError,
)
from openenv_grpc.operations import Kind, Operation, Reply
from openenv_grpc.sessions import Attachment, Resume
from openenv_grpc.types import Action, Observation, ServerMode
from tests.engine.snapshot_environments import (
    AsyncDrawing,
    AsyncTelling,
    Drawing,
    OddRestore,
    Purse,
    Remembering,
    Stateless,
    Telling,
    Threaded,
    Tooled,
)
from tests.engine.talking import CODEC, Caller, definition, reason, running
from tests.environments import Countdown, Strict

LIMIT_S = 60  # a process takes a while to start on a busy machine
KEY = "a key of at least 22 characters"


async def save(caller: Caller, **fields: Any) -> str:
    saved = await caller.do(Kind.SNAPSHOT, **fields)
    assert saved["size_bytes"] > 0
    snapshot_id: str = saved["snapshot_id"]
    return snapshot_id


async def open_in(
    attachment: Attachment, snapshot_id: str = "", environment: str = "", **options: Any
) -> Caller:
    """Opens a session and waits until it stands. Raises what keeps it from that."""
    opening: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
    operation = Operation(kind=Kind.OPEN, codec=CODEC, request_id=1)
    session = attachment.open(
        environment,
        operation=operation,
        deliver=opening.set_result,
        snapshot_id=snapshot_id,
        **options,
    )
    async with asyncio.timeout(LIMIT_S):
        (await opening).written()
    return Caller(session)


@asynccontextmanager
async def served(
    *factories: Any, mode: ServerMode = ServerMode.SIMULATION, **settings: Any
) -> AsyncIterator[tuple[SessionManager, Attachment]]:
    engine = EngineSettings(**{"process_pool_size": 0, **settings})
    async with (
        running(*factories, settings=engine, mode=mode) as manager,
        manager.attach(peer="test") as attachment,
    ):
        yield manager, attachment


WAYS = {
    **{isolation: (Drawing, isolation) for isolation in ("thread", "shared", "inline", "process")},
    "async": (AsyncDrawing, None),
    "async process": (AsyncDrawing, "process"),
}


@pytest.mark.parametrize(("factory", "isolation"), WAYS.values(), ids=WAYS.keys())
async def test_a_fork_goes_on_from_where_its_session_was(
    factory: type[Countdown], isolation: str | None
) -> None:
    async with served(factory, isolation=isolation) as (_, attachment):
        first = await open_in(attachment)
        episode_id = (await first.reset(seed=7, start=9))["episode_id"]
        await first.step()
        snapshot_id = await save(first)
        other = await open_in(attachment, snapshot_id)
        state = await other.do(Kind.STATE)
        assert (state["episode_id"], state["step_count"]) == (episode_id, 1)
        mine = [await first.step() for _ in range(3)]
        assert [step["left"] for step in mine] == [7, 6, 5]
        assert [await other.step() for _ in range(3)] == mine
        assert (await other.reset(seed=7, start=9))["left"] == 9
        assert (await first.step())["left"] == 4


@pytest.mark.parametrize("isolation", ["thread", "process"])
async def test_an_environment_saves_itself_in_its_own_way(isolation: str) -> None:
    async with served(Telling, isolation=isolation) as (_, attachment):
        first = await open_in(attachment)
        await first.reset(start=5)
        await first.step("words" * 60_000)  # more than one frame to and from a process carries
        other = await open_in(attachment, await save(first))
        assert (await other.step())["left"] == 3


async def test_saving_may_be_awaited() -> None:
    async with served(AsyncTelling) as (_, attachment):
        first = await open_in(attachment)
        await first.reset(start=5)
        other = await open_in(attachment, await save(first))
        assert (await other.step())["left"] == 4


async def test_an_environment_is_saved_and_restored_on_its_own_thread() -> None:
    async with served(Threaded) as (_, attachment):
        first = await open_in(attachment)
        await first.reset(start=5)
        other = await open_in(attachment, await save(first))
        assert (await other.step())["left"] == 4


async def test_an_environment_may_have_no_state_of_its_own() -> None:
    async with served(Stateless) as (manager, attachment):
        assert manager.spec().snapshots
        first = await open_in(attachment)
        await first.reset(seed=1)
        await first.step()
        other = await open_in(attachment, await save(first))
        assert await other.step() == await first.step()


async def test_what_tools_have_earned_is_saved() -> None:
    definitions = [definition(Purse, action_type=Action, observation_type=Observation)]
    async with SessionManager(definitions) as manager, manager.attach(peer="test") as attachment:
        first = await open_in(attachment)
        await first.reset()
        await first.do(Kind.CALL_TOOL, ("earn", {"coins": 2}))
        other = await open_in(attachment, await save(first))
        assert (await other.do(Kind.EVALUATE))["reward"] == 2.0
        assert (await other.do(Kind.CALL_TOOL, ("earn", {"coins": 1})))["text"] == "3 coins"
        assert (await first.do(Kind.EVALUATE))["reward"] == 2.0


async def test_a_fork_is_in_its_episode_or_past_it() -> None:
    class Saved(Strict):
        SNAPSHOT_FIELDS = ("left", "steps")

    async with served(Saved) as (_, attachment):
        first = await open_in(attachment)
        fresh = await save(first)
        await first.reset(start=2)
        await first.step()
        amid = await open_in(attachment, await save(first))
        assert amid.session.info().under_way
        assert (await amid.step())["done"]
        over = await open_in(attachment, await save(amid))
        assert not over.session.info().under_way
        assert await reason(over.send(Kind.STEP, {})) == "EPISODE_OVER"
        not_begun = await open_in(attachment, fresh)
        assert await reason(not_begun.send(Kind.STEP, {})) == "EPISODE_NOT_STARTED"


async def test_a_fork_counts_its_own_steps_from_its_opening_on() -> None:
    async with served(Drawing) as (_, attachment):
        first = await open_in(attachment)
        await first.reset()
        await first.step()
        other = await open_in(attachment, await save(first))
        await other.step()
        assert await other.close() == {"step_count": 1}


async def test_a_session_that_nobody_opened_explicitly_can_start_from_a_snapshot() -> None:
    async with served(Drawing) as (_, attachment):
        first = await open_in(attachment)
        await first.reset(start=5)
        other = Caller(attachment.open("", snapshot_id=await save(first)))
        assert (await other.step())["left"] == 4


# Ids


async def test_a_snapshot_outlives_its_session_and_belongs_to_an_environment() -> None:
    async with served(Drawing, Telling) as (_, attachment):
        first = await open_in(attachment, environment="Telling")
        await first.reset(start=5)
        snapshot_id = await save(first)
        await first.close()
        assert (await open_in(attachment, snapshot_id)).session.spec.name == "Telling"
        with pytest.raises(InvalidRequestError, match=r"'Telling', not of 'Drawing'"):
            await open_in(attachment, snapshot_id, "Drawing")


async def test_an_unknown_snapshot_is_refused_and_takes_no_slot() -> None:
    async with served(Drawing) as (manager, attachment):
        with pytest.raises(SnapshotNotFoundError, match="made room") as caught:
            await open_in(attachment, "guessed")
        assert caught.value.session_lost
        assert manager.sessions() == []


async def test_a_repeat_has_the_same_answer_and_saves_nothing() -> None:
    async with served(Drawing) as (manager, attachment):
        first = await open_in(attachment)
        await first.reset()
        saved = await first.ask(Kind.SNAPSHOT, request_id=2)
        again = await first.ask(Kind.SNAPSHOT, request_id=2)
        assert again.content == saved.content
        assert manager.metrics.snapshots == 1
        assert await save(first, request_id=3) != json.loads(saved.content)["snapshot_id"]


async def test_a_repeated_fork_joins_its_session_though_the_snapshot_is_gone() -> None:
    async with served(Drawing, max_snapshots=1) as (manager, attachment):
        first = await open_in(attachment)
        await first.reset(start=5)
        snapshot_id = await save(first)
        resume = Resume(key=KEY, window_s=60)
        fork = await open_in(attachment, snapshot_id, resume=resume)
        await save(first)
        async with manager.attach(peer="again") as again:
            joined = await open_in(again, snapshot_id, resume=resume)
            assert joined.session.id == fork.session.id
            assert (await joined.step())["left"] == 4
            with pytest.raises(SnapshotNotFoundError):
                await open_in(again, snapshot_id)


# Bounds


async def test_what_was_not_used_for_longest_makes_room() -> None:
    async with served(Drawing, max_snapshots=2) as (manager, attachment):
        first = await open_in(attachment)
        used, unused = await save(first), await save(first)
        await open_in(attachment, used)
        last = await save(first)
        for kept in (used, last):
            await open_in(attachment, kept)
        with pytest.raises(SnapshotNotFoundError):
            await open_in(attachment, unused)
        assert (manager.metrics.snapshots, manager.metrics.snapshots_dropped) == (2, 1)


async def test_sizes_are_bounded_together() -> None:
    async with served(Drawing) as (_, attachment):
        first = await open_in(attachment)
        await first.reset()
        size = (await first.do(Kind.SNAPSHOT))["size_bytes"]
    async with served(Drawing, max_snapshot_bytes=2 * size + 100) as (manager, attachment):
        first = await open_in(attachment)
        await first.reset()
        for _ in range(3):
            await save(first)
        assert manager.metrics.snapshots == 2
        assert 0 < manager.metrics.snapshot_bytes <= 2 * size + 100
    async with served(Drawing, max_snapshot_bytes=100) as (manager, attachment):
        first = await open_in(attachment)
        with pytest.raises(OutcomeTooLargeError, match="--max-snapshot-bytes"):
            await save(first)
        await first.reset()
        assert (manager.metrics.snapshots, manager.metrics.snapshot_bytes) == (0, 0)


async def test_a_server_may_keep_none() -> None:
    async with served(Drawing, max_snapshots=0) as (manager, attachment):
        assert not manager.spec().snapshots
        first = await open_in(attachment)
        with pytest.raises(NotSupportedError, match="--max-snapshots"):
            await save(first)


# What fails


@pytest.mark.parametrize("isolation", ["thread", "process"])
@pytest.mark.parametrize(
    ("harm", "told"), [("no bytes", "returned dict, not bytes"), ("cannot be saved", "amid a move")]
)
async def test_saving_that_fails_leaves_the_session(isolation: str, harm: str, told: str) -> None:
    async with served(Telling, isolation=isolation) as (manager, attachment):
        first = await open_in(attachment)
        await first.reset(start=5)
        await first.step(harm)
        with pytest.raises(EnvironmentFailedError, match=told):
            await save(first)
        assert (await first.step())["left"] == 3
        assert manager.metrics.snapshots == 0


@pytest.mark.parametrize("isolation", ["thread", "process"])
async def test_a_fork_that_cannot_be_restored_is_not_opened(isolation: str) -> None:
    async with served(Telling, isolation=isolation) as (manager, attachment):
        first = await open_in(attachment)
        await first.reset(start=5)
        await first.step("cannot be restored")
        snapshot_id = await save(first)
        with pytest.raises(
            EnvironmentFailedError, match="not be restored: ValueError: no such position"
        ) as caught:
            await open_in(attachment, snapshot_id)
        assert caught.value.session_lost
        await no_more_than(manager, 1)
        assert (await first.step())["left"] == 3


@pytest.mark.parametrize("isolation", ["thread", "process"])
async def test_a_fork_whose_restoring_ends_its_program_is_not_opened(isolation: str) -> None:
    async with served(Telling, isolation=isolation) as (manager, attachment):
        first = await open_in(attachment)
        await first.reset(start=5)
        await first.step("exit")
        snapshot_id = await save(first)
        with pytest.raises(EnvironmentCrashedError) as caught:
            await open_in(attachment, snapshot_id)
        assert caught.value.session_lost
        await no_more_than(manager, 1)


async def test_an_end_while_restoring_closes_the_environment() -> None:
    AsyncTelling.restoring, AsyncTelling.closed = asyncio.Event(), 0
    async with served(AsyncTelling) as (manager, attachment):
        first = await open_in(attachment)
        await first.reset()
        await first.step("restoring")
        snapshot_id = await save(first)
        opening = asyncio.create_task(open_in(attachment, snapshot_id))
        async with asyncio.timeout(5):
            await AsyncTelling.restoring.wait()
            manager.end_session(manager.sessions()[-1].session_id, OpenEnvError("by the test"))
            with pytest.raises(OpenEnvError, match="by the test"):
                await opening
        await no_more_than(manager, 1)
        assert AsyncTelling.closed == 1


async def test_saving_that_is_cancelled_keeps_nothing() -> None:
    AsyncTelling.saving = asyncio.Event()
    async with served(AsyncTelling) as (manager, attachment):
        first = await open_in(attachment)
        await first.reset(start=5)
        await first.step("saving")
        operation = first.operation(Kind.SNAPSHOT, request_id=0)
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        first.session.submit(operation, reply.set_result)
        async with asyncio.timeout(5):
            await AsyncTelling.saving.wait()
        first.session.cancel_operation(operation)
        assert await reason(reply) == "CANCELLED"
        assert manager.metrics.snapshots == 0
        assert (await first.step())["left"] == 3


# What cannot be saved


@pytest.mark.parametrize("factory", [Countdown, OddRestore, Tooled])
async def test_what_offers_nothing_of_the_kind_says_so(factory: type) -> None:
    async with served(factory) as (manager, attachment):
        assert not manager.spec().snapshots
        first = await open_in(attachment)
        with pytest.raises(NotSupportedError, match="SNAPSHOT_FIELDS"):
            await save(first)


async def test_a_rubric_that_remembers_the_episode_is_not_forgotten_silently() -> None:
    async with served(Remembering) as (_, attachment):
        first = await open_in(attachment)
        with pytest.raises(NotSupportedError, match="rubric"):
            await save(first)


async def test_production_mode_saves_nothing() -> None:
    async with served(Drawing, mode=ServerMode.PRODUCTION) as (_, attachment):
        first = await open_in(attachment)
        assert await reason(first.send(Kind.SNAPSHOT)) == "MODE_FORBIDS"


async def test_the_catalogue_says_what_can_be_saved() -> None:
    async with served(Drawing, Telling, AsyncTelling) as (manager, _):
        assert all(spec.snapshots for spec in manager.environments.values())


async def no_more_than(manager: SessionManager, count: int) -> None:
    """Waits until sessions that end have ended."""
    async with asyncio.timeout(LIMIT_S):
        while len(manager.sessions()) > count:
            await asyncio.sleep(0.005)
