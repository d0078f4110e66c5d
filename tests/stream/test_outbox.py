"""The outbox: what is ready goes out as one message."""

from __future__ import annotations

import asyncio

import pytest

from openenv_grpc.stream import Outbox
from openenv_grpc.v1 import session_pb2
from openenv_grpc.wire.varints import varint


async def test_what_is_ready_goes_out_as_one_message() -> None:
    outbox = Outbox()
    for piece in (b"one", b"two", b"three"):
        outbox.put(piece)
    assert await outbox.take() == b"onetwothree"


async def test_a_message_stops_at_the_limit_and_a_larger_piece_goes_alone() -> None:
    outbox = Outbox(limit_bytes=4)
    for piece in (b"aa", b"bb", b"c", b"dddddd", b"e"):
        outbox.put(piece)
    assert [await outbox.take() for _ in range(4)] == [b"aabb", b"c", b"dddddd", b"e"]


async def test_an_empty_piece_makes_an_empty_message() -> None:
    outbox = Outbox()
    outbox.put(b"")
    assert await outbox.take() == b""


async def test_take_waits_for_a_piece_and_ends_after_close() -> None:
    outbox = Outbox()
    taking = asyncio.ensure_future(outbox.take())
    await asyncio.sleep(0)
    outbox.put(b"late")
    async with asyncio.timeout(5):
        assert await taking == b"late"
        outbox.put(b"last")
        outbox.close()
        assert await outbox.take() == b"last"
        assert await outbox.take() is None


async def test_below_waits_until_enough_has_been_taken() -> None:
    outbox = Outbox(limit_bytes=1)
    outbox.put(b"xxxx")
    outbox.put(b"yyyy")
    waiting = asyncio.ensure_future(outbox.below(5))
    await asyncio.sleep(0)
    assert not waiting.done()
    await outbox.take()
    async with asyncio.timeout(5):
        await waiting


@pytest.mark.parametrize("number", [0, 1, 127, 128, 300, 2**31 - 1, -1])
async def test_a_frame_adds_the_session_to_a_serialized_outcome(number: int) -> None:
    outcome = session_pb2.Outcome(request_id=7)
    outcome.step.reward = 1.5
    outbox = Outbox()
    for _ in range(2):
        outbox.put_framed(outcome.SerializeToString(), b"\x08" + varint(number))
    response = session_pb2.ConnectResponse.FromString(await outbox.take() or b"")
    outcome.session = number
    assert list(response.outcomes) == [outcome, outcome]
