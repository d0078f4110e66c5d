"""A session with large outcomes leaves the connection that it shares for a second one."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy
import pytest
from aiohttp import web

from openenv_grpc.client import (
    GenericEnvClient,
    VectorEnvClient,
    connections,
    crossing,
    moving,
)
from openenv_grpc.errors import SessionTakenOverError
from openenv_grpc.v1 import error_pb2, session_pb2
from tests.client.peers import ConnectPeer


@pytest.fixture(autouse=True)
def no_shared_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has outcomes go over connections: no session outgrows its own by what lies in memory."""
    monkeypatch.setenv("OPENENV_GRPC_SHARED_MEMORY", "0")


LARGE = {"text": "x" * 300_000}
SMALL = {"n": 1}


class Peer(ConnectPeer):
    """Notes by which socket what came: socket, session and kind, counting from 1."""

    def __init__(self) -> None:
        super().__init__()
        self.features = ["resume"]
        self.came: list[tuple[int, int, str | None]] = []
        self.refuses_attach = False
        self.most_sockets = 100

    async def _talk(self, socket: web.WebSocketResponse) -> None:
        if len(self.sockets) >= self.most_sockets:
            await socket.close(code=1013)
            return
        await super()._talk(socket)

    async def _answer(
        self, socket: web.WebSocketResponse, request: session_pb2.ConnectRequest
    ) -> None:
        place = self.sockets.index(socket) + 1
        for operation in request.operations:
            self.came.append((place, operation.session, operation.WhichOneof("kind")))
        if self.refuses_attach and any(each.HasField("attach") for each in request.operations):
            refused = session_pb2.Outcome(session=request.operations[0].session, control_id=1)
            refused.error.reason = error_pb2.REASON_SESSION_NOT_FOUND
            refused.error.message = "no such session"
            await self.tell(socket, refused)
        else:
            await super()._answer(socket, request)

    async def tell(self, socket: web.WebSocketResponse, outcome: session_pb2.Outcome) -> None:
        response = session_pb2.ConnectResponse(outcomes=[outcome])
        await socket.send_bytes(response.SerializeToString())

    async def take_over(self, socket: int, session: int) -> None:
        """Tells by a socket that a session is held elsewhere now."""
        event = session_pb2.Outcome(session=session)
        event.event.session_lost.reason = error_pb2.REASON_SESSION_TAKEN_OVER
        event.event.session_lost.message = "taken over"
        await self.tell(self.sockets[socket - 1], event)

    async def until_came(self, *what: tuple[int, int, str]) -> None:
        await self.until(lambda: self.came[-len(what) :] == list(what))

    def cut_one(self, socket: int) -> None:
        request = self.sockets[socket - 1]._req
        assert request is not None
        assert request.transport is not None
        request.transport.abort()


@asynccontextmanager
async def two_sessions(
    peer: Peer, *, window_s: float = 60
) -> AsyncIterator[tuple[GenericEnvClient, GenericEnvClient]]:
    async with (
        asyncio.timeout(20),
        peer.serve() as url,
        GenericEnvClient(url, resume_window_s=window_s) as one,
        GenericEnvClient(url) as other,
    ):
        await one.step(SMALL)
        await other.step(SMALL)
        peer.came.clear()
        yield one, other


async def moves_over() -> None:
    """Waits until no session is about to move any more."""
    moves = {task for task in asyncio.all_tasks() if task.get_name() == "openenv-grpc moving"}
    if moves:
        await asyncio.wait(moves)


async def until_moved() -> None:
    """Waits until a session has moved, whose outcome was large just now."""
    await moves_over()
    assert "openenv-grpc large" in [thread.name for thread in threading.enumerate()]


async def outgrow(client: GenericEnvClient) -> None:
    """Has a session get what makes it move: a second large answer."""
    for _ in range(2):
        assert (await client.step(LARGE)).observation == LARGE


def is_attach(operation: session_pb2.Operation) -> bool:
    return operation.HasField("attach")


async def test_it_attaches_there_and_goes_on() -> None:
    peer = Peer()
    async with two_sessions(peer) as (large, small):
        await outgrow(large)
        await peer.until_came((1, 1, "step"), (2, 1, "attach"))
        assert (await large.step(SMALL)).observation == SMALL
        assert (await small.step(SMALL)).observation == SMALL
        await large.close()
        assert peer.came[3:] == [(2, 1, "step"), (1, 2, "step"), (2, 1, "close")]
        asked = [each for each in peer.operations if each.request_id and not each.HasField("open")]
        assert [each.request_id for each in asked if each.HasField("close")] == [6]


async def test_that_it_was_taken_over_where_it_was_is_its_own_doing() -> None:
    peer = Peer()
    async with two_sessions(peer) as (large, small):
        await outgrow(large)
        await peer.until_came((2, 1, "attach"))
        await peer.take_over(1, 1)
        await small.step(SMALL)  # by the same socket, hence later
        assert (await large.step(SMALL)).observation == SMALL
        await peer.take_over(2, 1)  # but there it is not
        with pytest.raises(SessionTakenOverError):
            while True:
                await large.step(SMALL)


async def test_sessions_share_the_second_connection_and_it_ends_with_the_last() -> None:
    peer = Peer()
    async with two_sessions(peer) as (one, other):
        third = await GenericEnvClient(one.base_url).connect()
        await outgrow(one)
        await peer.until_came((2, 1, "attach"))
        await outgrow(other)
        await peer.until_came((2, 2, "attach"))
        assert "openenv-grpc large" in [thread.name for thread in threading.enumerate()]
        await one.close()
        assert peer.ended == 0
        await other.close()
        await peer.until(lambda: peer.ended == 1)
        assert "openenv-grpc large" not in [thread.name for thread in threading.enumerate()]
        assert (await third.step(SMALL)).observation == SMALL
        await third.close()
    assert len(peer.sockets) == 2


async def test_it_stays_while_nobody_would_wait_for_it() -> None:
    peer = Peer()
    async with peer.serve() as url, GenericEnvClient(url) as alone, asyncio.timeout(20):
        await outgrow(alone)
        async with GenericEnvClient(url) as like:
            await like.step(LARGE)
            await outgrow(alone)
            await outgrow(like)
            assert len(peer.sockets) == 1
            async with GenericEnvClient(url):
                await alone.step(LARGE)
                await peer.until_came((2, 1, "attach"))


@pytest.mark.parametrize(("window_s", "features"), [(0, ["resume"]), (60, [])])
async def test_it_stays_if_it_cannot_be_attached_to(window_s: float, features: list[str]) -> None:
    peer = Peer()
    peer.features = features
    async with two_sessions(peer, window_s=window_s) as (large, _):
        for _ in range(3):
            assert (await large.step(LARGE)).observation == LARGE
    assert len(peer.sockets) == 1


async def test_it_moves_between_two_operations() -> None:
    peer = Peer()
    async with two_sessions(peer) as (large, _):
        await large.step(LARGE)
        peer.held = lambda operation: operation.request_id == 5
        one = asyncio.create_task(large.step(LARGE))
        two = asyncio.create_task(large.step(SMALL))
        await one
        await peer.until(lambda: len(peer.sockets) == 2)
        assert peer.came == 3 * [(1, 1, "step")]
        await peer.release()
        await two
        await peer.until_came((1, 1, "step"), (2, 1, "attach"))


async def test_what_is_asked_while_it_moves_is_sent_once_it_has_moved() -> None:
    peer = Peer()
    peer.held = is_attach
    async with two_sessions(peer) as (large, small):
        await outgrow(large)
        await peer.until_came((2, 1, "attach"))
        step = asyncio.create_task(large.step(SMALL))
        given_up = asyncio.create_task(large.step(SMALL))
        await small.step(SMALL)
        given_up.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await given_up
        assert peer.came[-1] == (1, 2, "step")
        await peer.release()
        assert (await step).observation == SMALL
        await peer.until_came((2, 1, "step"), (2, 1, "step"), (2, 1, "cancel"))


async def test_who_does_not_know_it_there_leaves_it_where_it_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    peer = Peer()
    peer.refuses_attach = True
    async with two_sessions(peer) as (large, _):
        await outgrow(large)
        await peer.until_came((1, 1, "step"), (2, 1, "attach"))
        assert (await large.step(LARGE)).observation == LARGE
        assert (await large.step(SMALL)).observation == SMALL
        assert peer.came[3:] == [(1, 1, "step"), (1, 1, "step")]
        await peer.until(lambda: peer.ended == 1)  # nobody is left on the second
    assert caplog.text.count("large outcomes stay on the first connection") == 1
    assert len(peer.sockets) == 2


async def test_a_server_without_room_for_a_second_connection_is_asked_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    peer = Peer()
    peer.most_sockets = 1
    async with two_sessions(peer) as (one, other), GenericEnvClient(one.base_url):
        for _ in range(3):
            await outgrow(one)
            await outgrow(other)
            await moves_over()
    assert caplog.text.count("no second connection for large outcomes") == 1
    assert {socket for socket, _, _ in peer.came} == {1}


async def test_it_tries_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving, "AGAIN_S", 0)
    monkeypatch.setattr(connections, "AGAIN_S", 0)
    peer = Peer()
    peer.most_sockets = 1
    async with two_sessions(peer) as (large, _):
        await outgrow(large)
        await moves_over()
        peer.most_sockets = 2
        await outgrow(large)
        await peer.until_came((2, 1, "attach"))


async def test_a_second_connection_that_breaks_while_it_moves_leaves_it_on_the_first() -> None:
    peer = Peer()
    peer.held = lambda operation: is_attach(operation) and len(peer.sockets) == 2
    async with two_sessions(peer) as (large, small):
        await outgrow(large)
        await peer.until_came((2, 1, "attach"))
        step = asyncio.create_task(large.step(SMALL))
        await small.step(SMALL)
        peer.held = lambda _operation: False
        peer.cut_one(2)  # the server may have attached it there
        assert (await step).observation == SMALL
        assert peer.came[-2:] == [(1, 3, "attach"), (1, 3, "step")]
        await peer.take_over(1, 3)  # and only now has read that it should
        await peer.until_came((1, 4, "attach"))
        assert (await large.step(SMALL)).observation == SMALL
        await peer.take_over(1, 4)
        with pytest.raises(SessionTakenOverError):
            while True:
                await large.step(SMALL)


async def test_an_attach_that_is_not_answered_holds_nobody_up_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(crossing, "LIMIT_S", 0.05)
    peer = Peer()
    peer.held = is_attach
    async with two_sessions(peer) as (large, _):
        await outgrow(large)
        await peer.until_came((2, 1, "attach"), (1, 3, "attach"))
        assert (await large.step(SMALL)).observation == SMALL


@pytest.mark.parametrize("attached", [True, False])
async def test_a_first_connection_that_breaks_while_it_moves(*, attached: bool) -> None:
    peer = Peer()
    peer.held = is_attach
    async with two_sessions(peer) as (large, small):
        await outgrow(large)
        await peer.until_came((2, 1, "attach"))
        peer.held = lambda _operation: False
        peer.cut_one(1)
        await peer.until_came((3, 1, "attach"))  # the other session
        if attached:
            await peer.release()
        else:
            peer.cut_one(2)
        assert (await large.step(SMALL)).observation == SMALL
        assert peer.came[-1][0] == (2 if attached else 3)
        assert (await small.step(SMALL)).observation == SMALL


async def test_it_goes_on_there_after_a_cut() -> None:
    peer = Peer()
    async with two_sessions(peer) as (large, _):
        await outgrow(large)
        await peer.until_came((2, 1, "attach"))
        await large.step(SMALL)
        peer.cut_one(2)
        await peer.until_came((3, 1, "attach"))
        assert (await large.step(LARGE)).observation == LARGE
        assert peer.came[-1] == (3, 1, "step")


@pytest.mark.parametrize("attached", [True, False])
async def test_closing_while_it_moves_ends_the_session_and_both_connections(
    *, attached: bool
) -> None:
    peer = Peer()
    peer.held = is_attach
    async with two_sessions(peer) as (large, _):
        await outgrow(large)
        await peer.until_came((2, 1, "attach"))
        closing = asyncio.create_task(large.close())
        if attached:
            await peer.release()
        else:
            peer.held = lambda _operation: False
            peer.cut_one(2)
        await closing
        assert peer.came[-1] == ((2, 1, "close") if attached else (1, 3, "close"))
        await peer.until(lambda: peer.ended == 1)
    await peer.until(lambda: peer.ended == 2)
    names = [task.get_name() for task in asyncio.all_tasks()]
    assert [name for name in names if name.startswith("openenv-grpc")] == []


async def test_large_arrays_arrive_whole_for_one_and_for_many(url: str) -> None:
    frame = numpy.ones(100_000, dtype=bool)
    look = {"op": "look", "frame": frame}
    async with (
        GenericEnvClient(url, environment="TurnEnvironment") as client,
        VectorEnvClient(url, 2, environment="TurnEnvironment") as envs,
        asyncio.timeout(30),
    ):
        await envs.reset()
        for _ in range(3):
            seen = (await client.step(look)).observation
            numpy.testing.assert_array_equal(seen["frame"], 2 * frame)
            numpy.testing.assert_array_equal(seen["frames"][0], frame)
            batch = (await envs.step([look, look])).observations
            numpy.testing.assert_array_equal(batch["frame"], numpy.stack([2 * frame, 2 * frame]))
