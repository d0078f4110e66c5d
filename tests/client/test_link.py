"""What a client sends to go on with its sessions after a stream, and when it gives them up."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from openenv_grpc.client import GenericEnvClient
from openenv_grpc.errors import (
    Effect,
    ProtocolViolationError,
    SessionNotFoundError,
    SessionTakenOverError,
    UnauthenticatedError,
    UnavailableError,
)
from openenv_grpc.v1 import error_pb2, session_pb2
from tests.client.peers import ConnectPeer, serve_socket
from tests.client.test_connection import is_step


def resuming_peer() -> ConnectPeer:
    peer = ConnectPeer()
    peer.features = ["resume"]
    return peer


def kinds(operations: list[session_pb2.Operation]) -> list[tuple[int, int, str | None]]:
    return [(each.session, each.request_id, each.WhichOneof("kind")) for each in operations]


async def test_a_window_is_asked_for_only_where_the_server_can_give_one() -> None:
    for features, asked in (([], False), (["resume"], True)):
        peer = ConnectPeer()
        peer.features = list(features)
        async with peer.serve() as url, GenericEnvClient(url, resume_window_s=7):
            [opened] = peer.operations
            assert opened.open.HasField("resume_window") is asked
            assert opened.open.resume_window.ToSeconds() == (7 if asked else 0)
            assert (len(opened.open.resume_key) in range(22, 65)) is asked


@pytest.mark.parametrize("window_s", [None, 0])
async def test_no_window_is_asked_for_where_the_caller_wants_none(window_s: float | None) -> None:
    peer = resuming_peer()
    async with peer.serve() as url, GenericEnvClient(url, resume_window_s=window_s):
        [opened] = peer.operations
        assert not opened.open.HasField("resume_window")
        assert opened.open.resume_key == ""


async def test_each_session_has_a_key_of_its_own() -> None:
    peer = resuming_peer()
    async with peer.serve() as url, GenericEnvClient(url), GenericEnvClient(url):
        first, second = peer.operations
        assert first.open.resume_key != second.open.resume_key


async def test_sessions_attach_and_send_again_what_has_no_answer() -> None:
    peer = resuming_peer()
    async with (
        peer.serve() as url,
        GenericEnvClient(url) as first,
        GenericEnvClient(url) as second,
        asyncio.timeout(5),
    ):
        await first.reset()
        peer.held = is_step
        steps = [asyncio.create_task(first.step({"n": number})) for number in range(2)]
        steps.append(asyncio.create_task(second.step({"n": 2})))
        await peer.until(lambda: sum(map(is_step, peer.operations)) == 3)
        opened = [each for each in peer.operations if each.HasField("open")]
        sent = [each for each in peer.operations if is_step(each)]
        peer.held = lambda _operation: False
        peer.messages.clear()
        peer.cut()
        results = [await step for step in steps]
        assert [result.observation["n"] for result in results] == [0, 1, 2]
        assert kinds(peer.operations) == [
            (1, 0, "attach"),
            (1, 3, "step"),
            (1, 4, "step"),
            (2, 0, "attach"),
            (2, 2, "step"),
        ]
        again = [each for each in peer.operations if is_step(each)]
        assert [each.step for each in again] == [each.step for each in sent]
        attached = [each.attach for each in peer.operations if each.HasField("attach")]
        assert [each.session_id for each in attached] == ["session-1", "session-2"]
        assert [each.resume_key for each in attached] == [each.open.resume_key for each in opened]
        assert len([message for message in peer.messages if message.operations]) == 1


async def test_an_open_without_an_answer_is_sent_again_with_all_that_followed() -> None:
    peer = resuming_peer()
    peer.held = lambda _operation: True
    async with peer.serve() as url, asyncio.timeout(5):
        client = GenericEnvClient(url)
        connect = asyncio.create_task(client.connect())
        await peer.until(lambda: len(peer.operations) == 1)
        peer.held = lambda _operation: False
        peer.cut()
        await connect
        first, again = peer.operations
        assert again == first
        await client.close()


async def test_a_cut_while_nothing_is_under_way_is_mended_before_the_next_call() -> None:
    peer = resuming_peer()
    async with peer.serve() as url, GenericEnvClient(url) as client, asyncio.timeout(5):
        await client.reset()
        peer.messages.clear()
        peer.cut()
        await peer.until(lambda: len(peer.operations) == 1)
        assert kinds(peer.operations) == [(1, 0, "attach")]
        assert (await client.step({"n": 1})).observation == {"n": 1}


async def test_a_session_that_is_not_there_any_more_is_lost_at_once() -> None:
    peer = resuming_peer()
    async with peer.serve() as url, GenericEnvClient(url) as client, asyncio.timeout(5):
        await client.reset()
        peer.held = lambda operation: True
        sent = asyncio.create_task(client.step({}))
        await peer.until(lambda: is_step(peer.operations[-1]))
        peer.messages.clear()
        peer.cut()
        await peer.until(lambda: len(peer.operations) == 2)
        unsent = asyncio.create_task(client.step({}))
        await peer.until(lambda: len(peer.operations) == 3)
        refused = session_pb2.Outcome(session=1, control_id=peer.operations[0].control_id)
        refused.error.reason = error_pb2.REASON_SESSION_NOT_FOUND
        refused.error.message = "no such session"
        await peer.send(refused)
        for step, effect in ((sent, Effect.UNKNOWN), (unsent, Effect.NONE)):
            with pytest.raises(SessionNotFoundError) as caught:
                await step
            assert (caught.value.effect, caught.value.session_lost) == (effect, True)
        peer.held = lambda operation: False
        await client.reset()
        assert kinds(peer.operations)[-2:] == [(2, 1, "open"), (2, 2, "reset_episode")]


async def test_a_session_that_was_taken_over_is_left_to_who_took_it() -> None:
    peer = resuming_peer()
    peer.held = is_step
    async with peer.serve() as url, GenericEnvClient(url) as client, asyncio.timeout(5):
        step = asyncio.create_task(client.step({}))
        await peer.until(lambda: is_step(peer.operations[-1]))
        event = session_pb2.Outcome(session=1)
        event.event.session_lost.reason = error_pb2.REASON_SESSION_TAKEN_OVER
        event.event.session_lost.message = "taken over"
        peer.messages.clear()
        await peer.send(event)
        with pytest.raises(SessionTakenOverError) as caught:
            await step
        assert (caught.value.effect, caught.value.session_lost) == (Effect.UNKNOWN, True)
        with pytest.raises(SessionTakenOverError, match=r"call reset\(\)"):
            await client.step({})
        assert peer.operations == []


async def test_what_ends_every_stream_is_not_sent_for_ever() -> None:
    peer = resuming_peer()
    cuts = 0

    def poison(operation: session_pb2.Operation) -> bool:
        nonlocal cuts
        if is_step(operation):
            cuts += 1
            peer.cut()
        return is_step(operation)

    peer.held = poison
    async with (
        peer.serve() as url,
        GenericEnvClient(url, resume_window_s=0.5) as client,
        asyncio.timeout(5),
    ):
        with pytest.raises(UnavailableError, match="window") as caught:
            await client.step({})
        assert (caught.value.effect, caught.value.session_lost) == (Effect.UNKNOWN, True)
        assert 2 <= cuts < 8  # with a growing delay


async def test_a_stream_that_ends_for_a_reason_that_stays_is_not_made_anew() -> None:
    peer = resuming_peer()
    async with peer.serve() as url, GenericEnvClient(url) as client, asyncio.timeout(5):
        await client.reset()
        await peer.sockets[-1].send_bytes(b"\xff\xff\xff")
        with pytest.raises(ProtocolViolationError):
            while True:
                await client.step({})
        assert len(peer.sockets) == 1


async def test_a_server_that_refuses_the_client_on_its_return_loses_the_session() -> None:
    greeted = 0

    async def talk(socket: web.WebSocketResponse) -> None:
        nonlocal greeted
        greeted += 1
        await socket.receive()
        response = session_pb2.ConnectResponse()
        response.server.features.append("resume")
        if greeted > 1:
            refusal = response.outcomes.add(session=-1)
            refusal.error.reason = error_pb2.REASON_UNAUTHENTICATED
            refusal.error.message = "the token is no longer valid"
            response.ClearField("server")
            await socket.send_bytes(response.SerializeToString())
            await socket.receive()
            return
        await socket.send_bytes(response.SerializeToString())
        opened = session_pb2.ConnectResponse()
        outcome = opened.outcomes.add(session=1, request_id=1)
        outcome.open.session_id = "session"
        outcome.open.resume_window.FromSeconds(60)
        await socket.receive()
        await socket.send_bytes(opened.SerializeToString())
        await socket.receive()

    async with serve_socket(talk, binary=True) as url, asyncio.timeout(5):
        client = GenericEnvClient(url)
        await client.connect()
        with pytest.raises(UnauthenticatedError, match="no longer valid") as caught:
            await client.step({})
        assert caught.value.session_lost
        await client.close()


async def test_closing_while_there_is_no_connection_sends_the_close_later() -> None:
    peer = resuming_peer()
    async with peer.serve() as url, asyncio.timeout(5):
        client = await GenericEnvClient(url).connect()
        peer.messages.clear()
        peer.cut()
        await client.close()
        assert kinds(peer.operations) == [(1, 0, "attach"), (1, 2, "close")]
