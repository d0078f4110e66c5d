"""Opening where no slot is free: how long a client waits, what it says, and who gets the slots."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from openenv_grpc.client import GenericEnvClient, opening
from openenv_grpc.engine import EnvironmentDefinition
from openenv_grpc.errors import (
    DeadlineExceededError,
    InvalidRequestError,
    OpenEnvError,
    SessionCapacityError,
    UnavailableError,
)
from openenv_grpc.v1 import session_pb2
from tests.client.conftest import serve_environments
from tests.client.peers import ConnectPeer
from tests.environments import Count, Counted, Occupancy, Occupying

DOORS = pytest.mark.parametrize("door", ["grpc", "ws"])


@asynccontextmanager
async def served(
    path: Path, occupancy: Occupancy, *, max_sessions: int, **settings: Any
) -> AsyncIterator[dict[str, str]]:
    definition = EnvironmentDefinition(
        factory=functools.partial(Occupying, occupancy),
        action_type=Count,
        observation_type=Counted,
        max_sessions=max_sessions,
    )
    async with serve_environments(definition, path=path, **settings) as urls:
        yield urls


def queueing_peer() -> ConnectPeer:
    peer = ConnectPeer()
    peer.features = ["queue", "resume"]
    peer.held = lambda operation: operation.HasField("open")
    return peer


def place(position: int) -> session_pb2.Outcome:
    outcome = session_pb2.Outcome(session=1, request_id=1)
    outcome.progress.queue_position = position
    outcome.progress.session_limit = 4
    return outcome


# Who gets the slots


@DOORS
async def test_sixty_four_clients_finish_on_four_slots_in_order_of_arrival(
    tmp_path: Path, door: str
) -> None:
    occupancy, order = Occupancy(), list[int]()

    async def drive(url: str, number: int) -> None:
        async with GenericEnvClient(url) as client:
            order.append(number)
            await client.reset()
            for _ in range(20):
                await client.step({"by": 0})

    async with (
        asyncio.timeout(120),
        served(tmp_path, occupancy, max_sessions=4) as urls,
        asyncio.TaskGroup() as clients,
    ):
        for number in range(64):
            clients.create_task(drive(urls[door], number))
    assert occupancy.most == 4
    assert all(abs(place - number) < 4 for place, number in enumerate(order))


@DOORS
async def test_a_server_that_refuses_tells_its_numbers_and_when_to_retry(
    tmp_path: Path, door: str
) -> None:
    async with (
        served(tmp_path, Occupancy(), max_sessions=1, max_queued=0) as urls,
        GenericEnvClient(urls[door]) as holder,
    ):
        with pytest.raises(SessionCapacityError) as caught:
            await GenericEnvClient(urls[door]).connect()
        assert caught.value.metadata == {"active_sessions": "1", "max_sessions": "1"}
        assert caught.value.retry_delay_s == 1.0
        await holder.step({})


@DOORS
async def test_clients_of_one_process_that_hold_and_wait_are_told_so(
    tmp_path: Path, door: str
) -> None:
    settings = {"max_sessions": 4, "hold_and_wait_grace_s": 0.5}
    async with asyncio.timeout(60), served(tmp_path, Occupancy(), **settings) as urls:
        clients = [GenericEnvClient(urls[door]) for _ in range(16)]
        ended = await asyncio.gather(
            *(client.connect() for client in clients), return_exceptions=True
        )
        errors = [error for error in ended if isinstance(error, SessionCapacityError)]
        assert len(errors) == 12
        assert all("holds 4 of 4 sessions, all idle" in error.message for error in errors)
        assert all("--max-sessions 16" in error.message for error in errors)
        for client in clients:
            await client.close()


@DOORS
async def test_a_slot_is_given_on_the_moment_a_peer_without_a_window_goes(
    tmp_path: Path, door: str
) -> None:
    async with asyncio.timeout(30), served(tmp_path, Occupancy(), max_sessions=1) as urls:
        other = "ws" if door == "grpc" else "grpc"
        holder = GenericEnvClient(urls[other], resume_window_s=None)
        await holder.connect()
        client = GenericEnvClient(urls[door])
        waiting = asyncio.create_task(client.connect())
        link = holder._session._ride.berth.link  # type: ignore[union-attr]
        await link._stream.connection.close()  # without a word of its session
        await waiting
        await client.close()
        with pytest.raises(OpenEnvError):
            await holder.step({})
        await holder.close()


@DOORS
async def test_a_client_that_gives_up_leaves_the_queue(tmp_path: Path, door: str) -> None:
    async with asyncio.timeout(30), served(tmp_path, Occupancy(), max_sessions=1) as urls:
        async with GenericEnvClient(urls[door]):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await GenericEnvClient(urls[door]).connect()
            with pytest.raises(SessionCapacityError, match=r"within 0\.1 seconds"):
                await GenericEnvClient(urls[door], queue_timeout_s=0.1).connect()
        async with GenericEnvClient(urls[door]) as client:
            await client.step({})


# How long a client waits


async def test_a_client_asks_to_wait_only_where_there_is_a_queue() -> None:
    for features, asked in (([], False), (["queue"], True)):
        peer = ConnectPeer()
        peer.features = list(features)
        async with peer.serve() as url, GenericEnvClient(url, queue_timeout_s=7):
            [opened] = peer.operations
            assert opened.open.HasField("queue_timeout") is asked
            assert opened.open.queue_timeout.ToSeconds() == (7 if asked else 0)
            assert opened.open.progress is asked


async def test_a_wait_for_a_slot_does_not_count_against_the_wait_for_an_answer() -> None:
    peer = queueing_peer()
    async with asyncio.timeout(30), peer.serve() as url:
        client = GenericEnvClient(url, message_timeout_s=0.3)
        connecting = asyncio.create_task(client.connect())
        await peer.until(lambda: bool(peer.operations))
        await peer.send(place(2))
        assert await asyncio.wait({connecting}, timeout=0.6) == (set(), {connecting})
        await peer.send(place(0))
        with pytest.raises(DeadlineExceededError, match=r"within 0\.3 s"):
            await connecting
        await peer.until(lambda: len(peer.operations) >= 3)
        cancelled, closed = peer.operations[1:3]
        assert cancelled.cancel.request_id == 1
        assert closed.HasField("close")
        await client.close()


async def test_a_client_says_that_it_waits_and_where(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(opening, "SAY_AFTER_S", 0.05)
    monkeypatch.setattr(opening, "SAY_AGAIN_S", 0.05)
    caplog.set_level(logging.INFO, logger="openenv_grpc.client.opening")
    peer = queueing_peer()
    async with asyncio.timeout(30), peer.serve() as url:
        client = GenericEnvClient(url)
        connecting = asyncio.create_task(client.connect())
        await peer.until(lambda: bool(peer.operations))
        await peer.send(place(3))
        while len(caplog.records) < 2:
            await asyncio.sleep(0.01)
        assert caplog.records[0].levelname == "WARNING"
        assert caplog.records[1].levelname == "INFO"
        assert "place=3 session_limit=4 queue_timeout_s=300" in caplog.records[0].message
        await peer.send(place(0))
        await peer.release()
        await connecting
        await client.close()


async def test_a_client_that_waits_and_loses_its_connection_asks_again() -> None:
    peer = queueing_peer()
    async with asyncio.timeout(30), peer.serve() as url:
        client = GenericEnvClient(url)
        connecting = asyncio.create_task(client.connect())
        await peer.until(lambda: bool(peer.operations))
        await peer.send(place(1))
        peer.held = lambda _operation: False
        peer.cut()
        await connecting
        first, again = peer.operations
        assert first.open == again.open
        await client.close()


async def test_a_client_without_a_window_that_loses_its_connection_waits_no_more() -> None:
    peer = queueing_peer()
    async with asyncio.timeout(30), peer.serve() as url:
        client = GenericEnvClient(url, resume_window_s=None)
        connecting = asyncio.create_task(client.connect())
        await peer.until(lambda: bool(peer.operations))
        await peer.send(place(1))
        peer.cut()
        with pytest.raises(UnavailableError):
            await connecting
        await client.close()


@pytest.mark.parametrize("timeout_s", [-1, float("nan"), float("inf")])
def test_a_queue_timeout_that_makes_no_sense_is_refused(timeout_s: float) -> None:
    with pytest.raises(InvalidRequestError, match="queue_timeout_s"):
        GenericEnvClient("grpc://127.0.0.1:1", queue_timeout_s=timeout_s)
