"""Blocks in mapped memory: what was put is what is taken, and never anything else."""

from __future__ import annotations

import mmap
from collections import deque
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv_grpc.errors import ProtocolViolationError
from openenv_grpc.shared_memory.ring import HEAD, Block, Reader, Writer

START, END = 64, 64 + 1024


def ring() -> tuple[mmap.mmap, Writer, Reader]:
    memory = mmap.mmap(-1, 4096)
    return memory, Writer(memory, START, END), Reader(memory, START, END)


def put(writer: Writer, content: bytes) -> Block:
    block = writer.put(content)
    assert block is not None
    return block


def test_a_block_is_taken_as_it_was_put() -> None:
    _, writer, reader = ring()
    assert reader.take(put(writer, b"frame")) == b"frame"
    assert reader.take(put(writer, b"")) == b""


def test_a_full_ring_takes_no_more_until_blocks_were_taken() -> None:
    _, writer, reader = ring()
    blocks = [put(writer, bytes([number]) * 200) for number in range(4)]
    assert writer.put(b"x" * 200) is None
    assert reader.take(blocks[0]) == b"\0" * 200
    again = put(writer, b"y" * 200)
    assert again.offset == blocks[0].offset
    assert again.generation == 5
    assert [reader.take(block)[:1] for block in (*blocks[1:], again)] == [b"\1", b"\2", b"\3", b"y"]


def test_what_is_larger_than_the_ring_is_not_put() -> None:
    _, writer, _ = ring()
    assert writer.put(b"x" * (END - START - HEAD.size + 1)) is None
    assert writer.put(b"x" * (END - START - HEAD.size)) is not None


def test_where_all_was_taken_the_front_is_used_again() -> None:
    _, writer, reader = ring()
    offsets = set()
    for _ in range(10):
        block = put(writer, b"x" * 300)
        reader.take(block)
        offsets.add(block.offset)
    assert offsets == {START}


@given(st.lists(st.one_of(st.none(), st.binary(max_size=500)), max_size=60))
def test_whatever_is_put_and_taken_comes_out_whole_and_in_order(steps: list[bytes | None]) -> None:
    """`None` takes the oldest block."""
    _, writer, reader = ring()
    put_so_far: deque[tuple[Block, bytes]] = deque()
    for content in steps:
        if content is not None:
            block = writer.put(content)
            if block is not None:
                put_so_far.append((block, content))
        elif put_so_far:
            block, expected = put_so_far.popleft()
            assert reader.take(block) == expected
    for block, expected in put_so_far:
        assert reader.take(block) == expected


def test_a_block_is_taken_once() -> None:
    _, writer, reader = ring()
    block = put(writer, b"frame")
    reader.take(block)
    with pytest.raises(ProtocolViolationError, match="not in the shared memory any more"):
        reader.take(block)


def test_a_reference_is_refused_once_its_place_was_used_again() -> None:
    _, writer, reader = ring()
    block = put(writer, b"first")
    reader.take(block)
    second = put(writer, b"other")
    assert second.offset == block.offset
    with pytest.raises(ProtocolViolationError, match="generation 1 at 64 is not in"):
        reader.take(block)
    assert reader.take(second) == b"other"


class WrittenOver(mmap.mmap):
    """Memory in which another block is written while one is copied."""

    def __getitem__(self, key: slice) -> bytes:  # type: ignore[override]
        content: bytes = super().__getitem__(key)
        HEAD.pack_into(self, START, 99, 0)
        return content


def test_a_block_that_is_written_over_while_it_is_copied_is_refused() -> None:
    memory = WrittenOver(-1, 4096)
    block = put(Writer(memory, START, END), b"frame")
    with pytest.raises(ProtocolViolationError, match="not in the shared memory any more"):
        Reader(memory, START, END).take(block)


@pytest.mark.parametrize(
    "changed",
    [
        {"offset": 0},
        {"offset": START + 1},
        {"offset": END},
        {"offset": -64},
        {"offset": 2**62},
        {"size_bytes": -1},
        {"size_bytes": END - START},
        {"size_bytes": 2**62},
        {"generation": 0},
        {"generation": 2},
        {"generation": -1},
    ],
    ids=str,
)
def test_a_reference_to_what_was_not_put_is_refused(changed: dict[str, int]) -> None:
    _, writer, reader = ring()
    block = put(writer, b"frame")
    with pytest.raises(ProtocolViolationError):
        reader.take(replace(block, **changed))
    assert reader.take(block) == b"frame"


def test_the_writer_does_not_go_by_what_the_other_side_wrote() -> None:
    memory, writer, _ = ring()
    first = put(writer, b"x" * 400)
    memory[:] = b"\xff" * len(memory)
    second = put(writer, b"y" * 400)
    assert second.offset >= first.offset + 400
    assert writer.put(b"z" * 400) is None
