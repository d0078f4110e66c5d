"""Memory of two processes: who may open it, and what is left of it."""

from __future__ import annotations

import fcntl
import mmap
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from openenv_grpc import shared_memory
from openenv_grpc.errors import NotSupportedError
from openenv_grpc.shared_memory import Offer, OfferedSegment

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is shared on Linux alone")

SIZE = 2**16


@pytest.fixture
def segment() -> Iterator[OfferedSegment]:
    segment = shared_memory.offer(SIZE)
    yield segment
    segment.close()


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_each_side_takes_what_the_other_put(segment: OfferedSegment) -> None:
    other = shared_memory.accept(segment.offer, max_bytes=SIZE)
    block = segment.put(b"action")
    assert block is not None
    assert other.take(block) == b"action"
    block = other.put(b"frame")
    assert block is not None
    assert segment.take(block) == b"frame"
    other.close()


ANOTHER = """
import sys
from openenv_grpc import shared_memory
process_id, descriptor, size, proof = sys.argv[1:]
offer = shared_memory.Offer(
    process_id=int(process_id),
    descriptor=int(descriptor),
    size_bytes=int(size),
    proof=bytes.fromhex(proof),
)
other = shared_memory.accept(offer, max_bytes=int(size))
block = other.put(b"x" * 20_000)
print(block.offset, block.size_bytes, block.generation)
"""


def test_another_process_opens_it(segment: OfferedSegment) -> None:
    offer = segment.offer
    numbers = map(str, (offer.process_id, offer.descriptor, offer.size_bytes))
    told = subprocess.run(
        [sys.executable, "-c", ANOTHER, *numbers, offer.proof.hex()],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    block = shared_memory.Block(*map(int, told.split()))
    assert segment.take(block) == b"x" * 20_000


def test_both_let_go_of_their_descriptors() -> None:
    before = descriptors()
    segment = shared_memory.offer(SIZE)
    other = shared_memory.accept(segment.offer, max_bytes=SIZE)
    segment.answered()
    assert descriptors() == before + 2  # a mapping holds one, too
    other.close()
    segment.close()
    segment.close()
    assert descriptors() == before


def test_it_has_no_name(segment: OfferedSegment) -> None:
    link = os.readlink(f"/proc/self/fd/{segment.offer.descriptor}")
    assert link == "/memfd:openenv-grpc (deleted)"


def test_its_size_cannot_be_changed(segment: OfferedSegment) -> None:
    for size in (0, SIZE // 2, 2 * SIZE):
        with pytest.raises(PermissionError):
            os.ftruncate(segment.offer.descriptor, size)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"proof": b"x" * 32}, "another than the one offered"),
        ({"proof": b""}, "a proof has 32 bytes"),
        ({"size_bytes": SIZE // 2}, "another size"),
        ({"size_bytes": 2 * SIZE}, "up to 65536 are allowed"),
        ({"size_bytes": 0}, "0 bytes of shared memory are offered"),
        ({"size_bytes": -1}, "-1 bytes"),
        ({"size_bytes": SIZE - 1}, "65535 bytes"),
        ({"descriptor": 2**31 - 1}, "cannot be opened from here"),
        ({"descriptor": -1}, "cannot be opened from here"),
        ({"process_id": 2**40}, "cannot be opened from here"),
        ({"process_id": -1}, "cannot be opened from here"),
        ({"process_id": 0}, "cannot be opened from here"),
    ],
    ids=str,
)
def test_what_is_not_as_it_was_offered_is_not_opened(
    segment: OfferedSegment, changed: dict[str, int], why: str
) -> None:
    before = descriptors()
    with pytest.raises(NotSupportedError, match=why):
        shared_memory.accept(replace(segment.offer, **changed), max_bytes=SIZE)
    assert descriptors() == before


def offer_of(descriptor: int, proof: bytes = b"x" * 32) -> Offer:
    return Offer(process_id=os.getpid(), descriptor=descriptor, size_bytes=SIZE, proof=proof)


def test_files_and_pipes_are_not_opened(tmp_path: Path) -> None:
    with (tmp_path / "secret").open("wb+") as file:
        file.write(b"x" * SIZE)
        file.flush()
        with pytest.raises(NotSupportedError, match="no memory to share"):
            shared_memory.accept(offer_of(file.fileno()), max_bytes=SIZE)
    ends = os.pipe()
    for end in ends:
        with pytest.raises(NotSupportedError, match="no memory to share"):
            shared_memory.accept(offer_of(end), max_bytes=SIZE)
        os.close(end)


@pytest.mark.parametrize("seals", [0, fcntl.F_SEAL_GROW, fcntl.F_SEAL_SHRINK])
def test_memory_that_could_be_cut_off_is_not_opened(seals: int) -> None:
    descriptor = os.memfd_create("openenv-grpc", os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, SIZE)
    os.pwrite(descriptor, b"x" * 32, 0)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    with pytest.raises(NotSupportedError, match="not sealed"):
        shared_memory.accept(offer_of(descriptor), max_bytes=SIZE)
    os.close(descriptor)


def test_memory_of_a_process_that_has_gone_is_not_opened(segment: OfferedSegment) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait(60)
    with pytest.raises(NotSupportedError, match="cannot be opened from here"):
        shared_memory.accept(replace(segment.offer, process_id=process.pid), max_bytes=SIZE)


def test_where_memory_cannot_be_made_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    before = descriptors()
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(NotSupportedError, match="Linux alone"):
        shared_memory.offer(SIZE)
    monkeypatch.undo()

    def refused(*_: object) -> None:
        raise OSError("no room")

    monkeypatch.setattr(mmap, "mmap", refused)
    with pytest.raises(NotSupportedError, match="no room"):
        shared_memory.offer(SIZE)
    monkeypatch.undo()
    monkeypatch.delattr(os, "memfd_create")
    with pytest.raises(NotSupportedError, match="memfd_create"):
        shared_memory.offer(SIZE)
    assert descriptors() == before
