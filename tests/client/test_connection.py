from __future__ import annotations

import asyncio

import pytest

from openenv_grpc import busy_polling
from openenv_grpc.client import GenericEnvClient
from openenv_grpc.errors import (
    DeadlineExceededError,
    Effect,
    InvalidRequestError,
    MessageTooLargeError,
    ProtocolViolationError,
    SessionExpiredError,
    UnavailableError,
)
from openenv_grpc.v1 import error_pb2, session_pb2
from tests.client.peers import ConnectPeer, serve_socket


def is_step(operation: session_pb2.Operation) -> bool:
    return operation.HasField("step")


async def test_clients_of_one_loop_share_a_connection() -> None:
    peer = ConnectPeer()
    async with (
        peer.serve() as url,
        GenericEnvClient(url) as first,
        GenericEnvClient(url) as second,
    ):
        await first.reset()
        await second.reset()
        assert len(peer.sockets) == 1
        assert {operation.session for operation in peer.operations} == {1, 2}


@pytest.mark.parametrize("said", ["500", "0"])
async def test_an_answer_is_looked_for_unless_the_variable_says_otherwise(
    monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    looks = 0

    def look() -> None:
        nonlocal looks
        looks += 1

    monkeypatch.setenv("OPENENV_GRPC_BUSY_POLL_US", said)
    monkeypatch.setattr(busy_polling, "_give_way", look)
    peer = ConnectPeer()
    async with peer.serve() as url, GenericEnvClient(url) as client:
        await client.reset()

    assert (looks > 0) is (said == "500")


async def test_nothing_is_looked_for_once_a_message_has_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    peer = ConnectPeer()
    async with peer.serve() as url, GenericEnvClient(url) as client:
        await client.reset()
        monkeypatch.setattr(busy_polling, "_give_way", lambda: pytest.fail("it looks"))
        for _ in range(20):
            await asyncio.sleep(0)


def test_a_variable_that_says_no_time_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENENV_GRPC_BUSY_POLL_US", "often")
    with pytest.raises(InvalidRequestError, match="OPENENV_GRPC_BUSY_POLL_US is a number"):
        GenericEnvClient("ws://127.0.0.1:1")


async def test_clients_with_other_headers_have_a_connection_of_their_own() -> None:
    peer = ConnectPeer()
    async with (
        peer.serve() as url,
        GenericEnvClient(url),
        GenericEnvClient(url, headers={"authorization": "Bearer x"}),
    ):
        assert len(peer.sockets) == 2


async def test_the_last_client_closes_the_connection() -> None:
    peer = ConnectPeer()
    async with peer.serve() as url:
        first, second = GenericEnvClient(url), GenericEnvClient(url)
        await first.connect()
        await second.connect()
        await first.close()
        assert peer.ended == 0
        await second.close()
        await peer.until(lambda: peer.ended == 1)


async def test_what_is_ready_in_one_turn_leaves_as_one_message() -> None:
    peer = ConnectPeer()
    async with peer.serve() as url:
        clients = [GenericEnvClient(url) for _ in range(8)]
        await asyncio.gather(*(client.connect() for client in clients))
        peer.messages.clear()
        results = await asyncio.gather(
            *(client.step({"n": number}) for number, client in enumerate(clients))
        )
        assert [result.observation["n"] for result in results] == list(range(8))
        assert [len(message.operations) for message in peer.messages] == [8]
        await asyncio.gather(*(client.close() for client in clients))


async def test_sessions_that_are_answered_together_do_not_all_ask_together() -> None:
    peer = ConnectPeer()
    async with peer.serve() as url:
        clients = [GenericEnvClient(url) for _ in range(64)]
        await asyncio.gather(*(client.connect() for client in clients))
        peer.messages.clear()

        async def step_twice(client: GenericEnvClient) -> None:
            await client.step({})
            await client.step({})

        await asyncio.gather(*map(step_twice, clients))
        assert [len(message.operations) for message in peer.messages] == [64, 32, 32]
        await asyncio.gather(*(client.close() for client in clients))


async def test_messages_are_not_coalesced_beyond_a_size() -> None:
    peer = ConnectPeer()
    async with peer.serve() as url:
        clients = [GenericEnvClient(url) for _ in range(4)]
        await asyncio.gather(*(client.connect() for client in clients))
        peer.messages.clear()
        text = "x" * 100_000
        await asyncio.gather(*(client.step({"text": text}) for client in clients))
        assert [len(message.operations) for message in peer.messages] == [2, 2]
        await asyncio.gather(*(client.close() for client in clients))


async def test_request_ids_count_from_one_and_answers_are_acknowledged() -> None:
    peer = ConnectPeer()
    async with peer.serve() as url, GenericEnvClient(url) as client:
        await client.reset()
        await client.step({})
        await client.state()
        assert [operation.request_id for operation in peer.operations] == [1, 2, 3, 4]
        assert [operation.acknowledged_id for operation in peer.operations] == [0, 1, 2, 3]


async def test_a_late_answer_is_not_taken_for_the_next_ones() -> None:
    peer = ConnectPeer()
    peer.held = is_step
    async with peer.serve() as url, GenericEnvClient(url, message_timeout_s=0.1) as client:
        with pytest.raises(DeadlineExceededError) as caught:
            await client.step({"n": 1})
        assert caught.value.effect is Effect.UNKNOWN
        assert not caught.value.session_lost
        peer.held = lambda _operation: False
        await peer.release()
        result = await client.step({"n": 2})
        assert result.observation == {"n": 2}
        await client.state()
        assert peer.operations[-1].acknowledged_id == 3


async def test_an_operation_without_an_answer_is_not_acknowledged() -> None:
    peer = ConnectPeer()
    peer.held = is_step
    async with peer.serve() as url, GenericEnvClient(url, message_timeout_s=0.1) as client:
        with pytest.raises(DeadlineExceededError):
            await client.step({"n": 1})
        await client.state()
        assert peer.operations[-1].acknowledged_id == 1


async def test_a_timeout_travels_with_the_step() -> None:
    peer = ConnectPeer()
    async with peer.serve() as url, GenericEnvClient(url) as client:
        await client.step({}, timeout_s=1.5, effort=3)
        operation = peer.operations[-1]
        assert operation.timeout.ToMilliseconds() == 1500
        assert operation.step.options.json == '{"effort":3}'


async def test_a_cancelled_step_is_cancelled_on_the_server() -> None:
    peer = ConnectPeer()
    peer.held = is_step
    async with peer.serve() as url, GenericEnvClient(url) as client:
        step = asyncio.create_task(client.step({}))
        await peer.until(lambda: is_step(peer.operations[-1]))
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step
        await peer.until(lambda: peer.operations[-1].HasField("cancel"))
        assert peer.operations[-1].cancel.request_id == 2
        assert peer.operations[-1].request_id == 0


async def test_a_cut_connection_loses_the_session_until_the_next_reset() -> None:
    peer = ConnectPeer()
    peer.held = is_step
    async with peer.serve() as url, GenericEnvClient(url) as client:
        step = asyncio.create_task(client.step({}))
        await peer.until(lambda: is_step(peer.operations[-1]))
        peer.cut()
        with pytest.raises(UnavailableError) as caught:
            await step
        assert caught.value.effect is Effect.UNKNOWN
        assert caught.value.session_lost
        with pytest.raises(UnavailableError, match=r"call reset\(\)"):
            await client.step({})
        with pytest.raises(UnavailableError, match=r"call reset\(\)"):
            await client.state()
        await client.reset()
        assert len(peer.sockets) == 2


async def test_an_event_can_lose_the_session() -> None:
    peer = ConnectPeer()
    async with peer.serve() as url, GenericEnvClient(url) as client:
        event = session_pb2.Outcome(session=1)
        lost = event.event.session_lost
        lost.reason = error_pb2.REASON_SESSION_EXPIRED
        lost.message = "idle for too long"
        lost.session_lost = True
        await peer.send(event)
        async with asyncio.timeout(5):
            with pytest.raises(SessionExpiredError, match="idle for too long"):
                while True:
                    await client.state()
        await client.reset()
        assert peer.operations[-1].session == 2


async def test_a_message_too_large_for_the_server_is_not_sent() -> None:
    peer = ConnectPeer()
    peer.max_receive_size_bytes = 1000
    async with peer.serve() as url, GenericEnvClient(url) as client:
        with pytest.raises(MessageTooLargeError) as caught:
            await client.step({"text": "x" * 1000})
        assert caught.value.effect is Effect.NONE
        await client.step({"text": "x"})
        assert [operation.request_id for operation in peer.operations] == [1, 2]


async def test_a_server_that_does_not_greet_is_given_up() -> None:
    peer = ConnectPeer()
    peer.silent = True
    async with peer.serve() as url:
        client = GenericEnvClient(url, connect_timeout_s=0.1)
        with pytest.raises(UnavailableError, match="did not answer within"):
            await client.connect()
        await client.close()


async def test_a_server_that_falls_silent_is_given_up() -> None:
    peer = ConnectPeer()
    async with peer.serve() as url:
        client = GenericEnvClient(url, websocket_ping_interval_s=0.05, websocket_ping_timeout_s=0.2)
        async with client:
            await peer.until(lambda: not peer.messages[-1].ListFields())
            peer.silent = True
            with pytest.raises(UnavailableError, match="sign of life"):
                await client.step({})


async def test_bytes_that_are_no_message_end_the_connection() -> None:
    async def talk(socket: object) -> None:
        await socket.receive()  # type: ignore[attr-defined]
        await socket.send_bytes(b"\xff\xff\xff")  # type: ignore[attr-defined]
        await socket.receive()  # type: ignore[attr-defined]

    async with serve_socket(talk, binary=True) as url:
        client = GenericEnvClient(url)
        with pytest.raises(ProtocolViolationError):
            await client.connect()
        await client.close()


@pytest.mark.parametrize("scheme", ["ws", "grpc"])
async def test_a_port_where_nobody_listens_is_unavailable(
    scheme: str, unused_tcp_port: int
) -> None:
    client = GenericEnvClient(f"{scheme}://127.0.0.1:{unused_tcp_port}")
    async with asyncio.timeout(5):
        with pytest.raises(UnavailableError):
            await client.connect()
    await client.close()
