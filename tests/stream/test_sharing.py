"""A stream whose client offers memory: what goes through it, and what a peer cannot do with it."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Iterator

import pytest

from openenv_grpc import shared_memory
from openenv_grpc.engine import SessionManager
from openenv_grpc.errors import ProtocolViolationError
from openenv_grpc.shared_memory import Block, OfferedSegment
from openenv_grpc.stream import SHARED_BYTES, StreamLimits
from openenv_grpc.v1 import payload_pb2, session_pb2, tensor_pb2
from tests.framed import FRAMES, frame
from tests.stream.pipe import Pipe, closing, opening, piped, resetting, stepping

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is shared on Linux alone")

SIZE = 2**20


@pytest.fixture
async def host() -> AsyncIterator[SessionManager]:
    async with SessionManager([FRAMES]) as manager:
        yield manager


@pytest.fixture
def segment() -> Iterator[OfferedSegment]:
    segment = shared_memory.offer(SIZE)
    yield segment
    segment.close()


def hello(segment: OfferedSegment) -> session_pb2.ClientHello:
    offer = segment.offer
    offered = session_pb2.SharedMemory(
        process_id=offer.process_id,
        descriptor=offer.descriptor,
        size_bytes=offer.size_bytes,
        proof=offer.proof,
    )
    return session_pb2.ClientHello(shared_memory=offered)


async def greet(pipe: Pipe, client: session_pb2.ClientHello) -> session_pb2.ServerHello:
    pipe.send_bytes(session_pb2.ConnectRequest(client=client).SerializeToString())
    return (await pipe.response()).server


async def begin(pipe: Pipe, segment: OfferedSegment) -> None:
    """Has memory shared, and a session opened."""
    assert (await greet(pipe, hello(segment))).shares_memory
    assert (await pipe.ask(opening())).HasField("open")


def block_of(message: session_pb2.SharedBlock) -> Block:
    return Block(message.offset, message.size_bytes, message.generation)


def reference(block: Block, session: int = 1) -> session_pb2.Operation:
    operation = session_pb2.Operation(session=session)
    operation.shared_block.offset = block.offset
    operation.shared_block.size_bytes = block.size_bytes
    operation.shared_block.generation = block.generation
    return operation


def put(segment: OfferedSegment, operation: session_pb2.Operation) -> Block:
    block = segment.put(operation.SerializeToString())
    assert block is not None
    return block


def asking(size: int, *, first: int = 0, request_id: int = 2) -> session_pb2.Operation:
    action = f'{{"size":{size},"first":{first}}}'
    return stepping(request_id=request_id, action=action)


def frame_of(outcome: session_pb2.Outcome) -> bytes:
    data: bytes = outcome.step.observation.attachments[0].tensor.data
    return data


async def test_a_large_outcome_lies_in_memory(
    host: SessionManager, segment: OfferedSegment
) -> None:
    async with piped(host) as pipe:
        await begin(pipe, segment)
        told = await pipe.ask(asking(SHARED_BYTES, first=7))
        assert (told.session, told.request_id) == (1, 0)
        outcome = session_pb2.Outcome.FromString(segment.take(block_of(told.shared_block)))
        assert (outcome.session, outcome.request_id) == (0, 2)
        assert frame_of(outcome) == frame(7, SHARED_BYTES).tobytes()


async def test_a_small_outcome_goes_over_the_connection(
    host: SessionManager, segment: OfferedSegment
) -> None:
    async with piped(host) as pipe:
        await begin(pipe, segment)
        outcome = await pipe.ask(asking(SHARED_BYTES - 1000))
        assert len(frame_of(outcome)) == SHARED_BYTES - 1000


async def test_where_memory_is_full_outcomes_go_over_the_connection(
    host: SessionManager, segment: OfferedSegment
) -> None:
    async with piped(host) as pipe:
        await begin(pipe, segment)
        told = [await pipe.ask(asking(300_000, first=1, request_id=2))]
        told.append(await pipe.ask(asking(300_000, first=2, request_id=3)))
        assert told[0].HasField("shared_block")
        assert frame_of(told[1]) == frame(2, 300_000).tobytes()
        segment.take(block_of(told[0].shared_block))
        again = await pipe.ask(asking(300_000, first=3, request_id=4))
        taken = session_pb2.Outcome.FromString(segment.take(block_of(again.shared_block)))
        assert frame_of(taken) == frame(3, 300_000).tobytes()


async def test_operations_in_memory_are_done_in_their_order(
    host: SessionManager, segment: OfferedSegment
) -> None:
    async with piped(host) as pipe:
        await begin(pipe, segment)
        pipe.send(
            reference(put(segment, asking(1, first=10, request_id=2))),
            asking(1, first=20, request_id=3),
            reference(put(segment, asking(1, first=30, request_id=4))),
        )
        outcomes = [await pipe.outcome() for _ in range(3)]
        assert [outcome.request_id for outcome in outcomes] == [2, 3, 4]
        assert [frame_of(outcome)[0] for outcome in outcomes] == [10, 20, 30]


async def test_a_repeat_is_the_same_in_memory_and_over_the_connection(
    host: SessionManager, segment: OfferedSegment
) -> None:
    async with piped(host) as pipe:
        await begin(pipe, segment)
        operation = asking(4)
        data = frame(0, 100_000).tobytes()
        tensor = tensor_pb2.Tensor(
            data_type=tensor_pb2.DATA_TYPE_UINT8, shape=[len(data)], data=data
        )
        operation.step.action.attachments.append(
            payload_pb2.Attachment(pointer="/sent", tensor=tensor)
        )
        operation.step.action.json = '{"size":4,"sent":null}'
        first = await pipe.ask(reference(put(segment, operation)))
        assert await pipe.ask(operation) == first
        assert await pipe.ask(reference(put(segment, operation))) == first
        assert '"steps":1' in first.step.observation.json


async def test_a_failure_in_memory_names_its_operation(
    host: SessionManager, segment: OfferedSegment
) -> None:
    async with piped(host) as pipe:
        await begin(pipe, segment)
        outcome = await pipe.ask(reference(put(segment, resetting(request_id=9))))
        assert (outcome.session, outcome.request_id) == (1, 9)
        assert outcome.HasField("error")
        outcome = await pipe.ask(reference(put(segment, resetting(request_id=2)), session=5))
        assert (outcome.session, outcome.request_id) == (5, 2)


@pytest.mark.parametrize("kind", ["another_place", "another_generation", "huge", "twice"])
async def test_a_reference_to_what_is_not_there_ends_the_stream(
    host: SessionManager, segment: OfferedSegment, kind: str
) -> None:
    async with piped(host) as pipe:
        await begin(pipe, segment)
        block = put(segment, asking(1))
        bad = {
            "another_place": Block(block.offset + 128, 100, 1),
            "another_generation": Block(block.offset, block.size_bytes, 2),
            "huge": Block(block.offset, 2**40, 1),
            "twice": block,
        }[kind]
        if kind == "twice":
            await pipe.ask(reference(block))
        pipe.send(reference(bad))
        with pytest.raises(ProtocolViolationError, match="shared memory"):
            await pipe.served()


async def test_what_is_no_operation_ends_the_stream(
    host: SessionManager, segment: OfferedSegment
) -> None:
    async with piped(host) as pipe:
        await begin(pipe, segment)
        block = segment.put(b"\xff\xff\xff")
        assert block is not None
        pipe.send(reference(block))
        with pytest.raises(ProtocolViolationError, match="no operation"):
            await pipe.served()


async def test_a_reference_to_a_reference_ends_the_stream(
    host: SessionManager, segment: OfferedSegment
) -> None:
    async with piped(host) as pipe:
        await begin(pipe, segment)
        inner = put(segment, asking(1))
        pipe.send(reference(put(segment, reference(inner))))
        with pytest.raises(ProtocolViolationError, match="not elsewhere"):
            await pipe.served()


async def test_a_larger_operation_than_the_server_takes_ends_the_stream(
    host: SessionManager, segment: OfferedSegment
) -> None:
    async with piped(host, StreamLimits(max_receive_bytes=4096)) as pipe:
        await begin(pipe, segment)
        block = segment.put(b"x" * 4097)
        assert block is not None
        pipe.send(reference(block))
        with pytest.raises(ProtocolViolationError, match="4096 are taken"):
            await pipe.served()


async def test_a_reference_without_memory_ends_the_stream(host: SessionManager) -> None:
    async with piped(host) as pipe:
        pipe.send(reference(Block(4096, 10, 1)))
        with pytest.raises(ProtocolViolationError, match="none is shared here"):
            await pipe.served()


@pytest.mark.parametrize("limit", [0, SIZE - 1])
async def test_a_server_that_shares_no_such_memory_answers_over_the_connection(
    host: SessionManager, segment: OfferedSegment, limit: int
) -> None:
    async with piped(host, StreamLimits(max_shared_bytes=limit)) as pipe:
        assert not (await greet(pipe, hello(segment))).shares_memory
        await pipe.ask(opening())
        assert frame_of(await pipe.ask(asking(100_000))) == frame(0, 100_000).tobytes()


async def test_a_client_that_offers_none_never_sees_it(host: SessionManager) -> None:
    async with piped(host) as pipe:
        assert not (await greet(pipe, session_pb2.ClientHello())).shares_memory
        await pipe.ask(opening())
        assert len(frame_of(await pipe.ask(asking(100_000)))) == 100_000


async def test_memory_without_its_proof_is_not_shared(
    host: SessionManager, segment: OfferedSegment
) -> None:
    async with piped(host) as pipe:
        offered = hello(segment)
        offered.shared_memory.proof = b"x" * 32
        assert not (await greet(pipe, offered)).shares_memory


@pytest.mark.parametrize("end", ["end", "cut", "violation"])
async def test_the_server_lets_go_of_the_memory_with_the_stream(
    host: SessionManager, segment: OfferedSegment, end: str
) -> None:
    before = len(os.listdir("/proc/self/fd"))
    async with piped(host) as pipe:
        await begin(pipe, segment)
        await pipe.ask(closing(request_id=2))
        assert len(os.listdir("/proc/self/fd")) > before
        match end:
            case "end":
                pipe.end()
                await pipe.served()
            case "cut":
                pipe.cut()
                await pipe.served()
            case _:
                pipe.send_bytes(b"\xff")
                with pytest.raises(ProtocolViolationError):
                    await pipe.served()
        assert len(os.listdir("/proc/self/fd")) == before
