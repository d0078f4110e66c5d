"""A segment of memory, made by a client and opened by its server, without a name that could stay.

It is an anonymous file (`memfd`), which is gone with the last process that has it, however that
ends. The server opens it through `/proc`: the kernel lets it, if both belong to one user. That it
is the right one the client proves by a secret at its beginning.
"""

from __future__ import annotations

import contextlib
import fcntl
import hmac
import mmap
import os
import secrets
import sys
from dataclasses import dataclass

from openenv_grpc.errors import NotSupportedError
from openenv_grpc.shared_memory.ring import ALIGNED_BYTES, Block, Reader, Writer

DEFAULT_BYTES = 128 * 2**20
"""Half of it for each direction. Only what was used takes memory."""

PROOF_BYTES = 32
"""Of the secret at the beginning."""

_NAME = "openenv-grpc"
_BEGIN = 4096  # where blocks may lie
_LEAST_BYTES = 4 * _BEGIN
_OFF_LINUX = "memory is shared on Linux alone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """Where a segment can be opened."""

    process_id: int
    descriptor: int
    size_bytes: int
    proof: bytes


class Segment:
    """Mapped memory: half for each side to write."""

    def __init__(self, memory: mmap.mmap, *, is_client: bool) -> None:
        self._memory = memory
        middle = len(memory) // 2
        parts = (_BEGIN, middle), (middle, len(memory))
        mine, others = parts if is_client else parts[::-1]
        self._writer = Writer(memory, *mine)
        self._reader = Reader(memory, *others)

    def put(self, content: bytes) -> Block | None:
        """Puts a block for the other side, if there is room for it now."""
        return self._writer.put(content)

    def take(self, block: Block) -> bytes:
        """Takes a block of the other side. Raises `ProtocolViolationError` if there is none."""
        return self._reader.take(block)

    def close(self) -> None:
        """Lets go of the memory. May be called again; nothing else may be, afterwards."""
        self._memory.close()


class OfferedSegment(Segment):
    """A segment of this process, with what another needs to open it."""

    def __init__(self, memory: mmap.mmap, offer: Offer) -> None:
        super().__init__(memory, is_client=True)
        self.offer = offer
        self._descriptor: int | None = offer.descriptor

    def answered(self) -> None:
        """Learns that the other has opened it, or never will."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def close(self) -> None:
        """See `Segment`."""
        self.answered()
        super().close()


def offer(size_bytes: int = DEFAULT_BYTES) -> OfferedSegment:
    """Makes a segment.

    Raises:
        NotSupportedError: this system has no such thing, or no room for it.
    """
    if sys.platform != "linux":
        raise NotSupportedError(_OFF_LINUX)
    try:
        descriptor = os.memfd_create(_NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    except (AttributeError, OSError) as error:  # Python may have been built without it
        raise NotSupportedError(f"no memory can be shared: {error}") from error
    try:
        os.ftruncate(descriptor, size_bytes)
        # Who has mapped a file that is cut off dies at the first touch.
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _seals())
        memory = mmap.mmap(descriptor, size_bytes)
    except OSError as error:
        os.close(descriptor)
        raise NotSupportedError(f"no memory can be shared: {error}") from error
    proof = secrets.token_bytes(PROOF_BYTES)
    memory[:PROOF_BYTES] = proof
    return OfferedSegment(
        memory,
        Offer(process_id=os.getpid(), descriptor=descriptor, size_bytes=size_bytes, proof=proof),
    )


def accept(offer: Offer, *, max_bytes: int) -> Segment:
    """Opens a segment that another process offers.

    Raises:
        NotSupportedError: it cannot be opened from here, is larger than that, or is not what was
            offered. That is so wherever the other runs on another machine, in another container or
            for another user.
    """
    if sys.platform != "linux":
        raise NotSupportedError(_OFF_LINUX)
    size = offer.size_bytes
    if not _LEAST_BYTES <= size <= max_bytes or size % (2 * ALIGNED_BYTES):
        raise NotSupportedError(
            f"{size} bytes of shared memory are offered, and up to {max_bytes} are allowed"
        )
    if len(offer.proof) != PROOF_BYTES:
        raise NotSupportedError(f"a proof has {PROOF_BYTES} bytes, not {len(offer.proof)}")
    path = f"/proc/{offer.process_id}/fd/{offer.descriptor}"
    with contextlib.ExitStack() as stack:
        try:
            # Else a peer could have any file opened, and devices do things when they are.
            if os.readlink(path) != f"/memfd:{_NAME} (deleted)":
                raise NotSupportedError("what was offered is no memory to share")
            flags = os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
            descriptor = os.open(path, flags)
            stack.callback(os.close, descriptor)
            _check(descriptor, offer)
            memory = mmap.mmap(descriptor, offer.size_bytes)
        except OSError as error:
            raise NotSupportedError(f"the memory cannot be opened from here: {error}") from error
        if not hmac.compare_digest(memory[:PROOF_BYTES], offer.proof):
            memory.close()
            raise NotSupportedError("the memory is another than the one offered")
        return Segment(memory, is_client=False)


def _check(descriptor: int, offer: Offer) -> None:
    if os.fstat(descriptor).st_size != offer.size_bytes:
        raise NotSupportedError("the memory has another size than was offered")
    needed = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
    if fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & needed != needed:
        raise NotSupportedError("the memory's size is not sealed")


def _seals() -> int:
    return fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
