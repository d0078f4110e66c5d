"""Blocks in mapped memory: one process puts them there in turn, the other takes each once.

A block is a head of 16 bytes and the content. The head has two numbers of 64 bits, little-endian:
the block's generation, which counts from 1 and never comes again, and the generation that was
taken, by which the writer knows that the place is free.
"""

from __future__ import annotations

import mmap
import struct
from collections import deque
from dataclasses import dataclass

from openenv_grpc.errors import ProtocolViolationError

ALIGNED_BYTES = 64
"""Blocks begin at multiples of it."""

HEAD = struct.Struct("<QQ")
_GENERATION = struct.Struct("<Q")
_TAKEN_AT = 8  # within the head


@dataclass(frozen=True, slots=True)
class Block:
    """Where a message lies."""

    offset: int
    """Of the head, from the beginning of the memory."""
    size_bytes: int
    """Of the content, without the head."""
    generation: int


class Writer:
    """Puts blocks into its part of the memory, one behind the other and then from the front.

    It believes nothing of what stands there but that a block was taken.
    """

    def __init__(self, memory: mmap.mmap, start: int, end: int) -> None:
        self._memory = memory
        self._start = start
        self._end = end
        self._generation = 0
        self._untaken: deque[tuple[int, int, int]] = deque()  # begin, end and generation, in order

    def put(self, content: bytes) -> Block | None:
        """Puts a block, if there is room for it now."""
        size = HEAD.size + len(content)
        offset = self._room(-(-size // ALIGNED_BYTES) * ALIGNED_BYTES)
        if offset is None:
            return None
        self._generation += 1
        memory, end = self._memory, offset + size
        HEAD.pack_into(memory, offset, self._generation, 0)
        memory[offset + HEAD.size : end] = content
        self._untaken.append((offset, end, self._generation))
        return Block(offset, len(content), self._generation)

    def _room(self, size: int) -> int | None:
        """Finds a place. Where all was taken it is the front, whose pages are in use already."""
        untaken = self._untaken
        while untaken and self._was_taken(untaken[0]):
            untaken.popleft()
        if not untaken:
            return self._start if size <= self._end - self._start else None
        first = untaken[0][0]
        behind = -(-untaken[-1][1] // ALIGNED_BYTES) * ALIGNED_BYTES
        if behind > first:
            if size <= self._end - behind:
                return behind
            behind = self._start
        return behind if size <= first - behind else None

    def _was_taken(self, block: tuple[int, int, int]) -> bool:
        offset, _, generation = block
        taken: int = _GENERATION.unpack_from(self._memory, offset + _TAKEN_AT)[0]
        return taken == generation


class Reader:
    """Takes blocks out of the other's part of the memory."""

    def __init__(self, memory: mmap.mmap, start: int, end: int) -> None:
        self._memory = memory
        self._start = start
        self._end = end

    def take(self, block: Block) -> bytes:
        """Copies a block out, and says that its place is free.

        Raises:
            ProtocolViolationError: there is no such block, or none any more.
        """
        offset, size = block.offset, block.size_bytes
        if (
            size < 0
            or offset % ALIGNED_BYTES
            or not self._start <= offset <= self._end - HEAD.size - size
        ):
            raise ProtocolViolationError(
                f"a block of {size} bytes at {offset} does not lie in its part of the shared memory"
            )
        begin = offset + HEAD.size
        self._check(block)
        content = self._memory[begin : begin + size]
        self._check(block)  # else another was written over it meanwhile
        _GENERATION.pack_into(self._memory, offset + _TAKEN_AT, block.generation)
        return content

    def _check(self, block: Block) -> None:
        generation, taken = HEAD.unpack_from(self._memory, block.offset)
        if generation != block.generation or taken == generation or generation == 0:
            raise ProtocolViolationError(
                f"the block of generation {block.generation} at {block.offset} is not in the "
                "shared memory any more"
            )
