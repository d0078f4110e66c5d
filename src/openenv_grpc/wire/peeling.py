"""A large array of an outcome, left where it is in the message that was received.

Protobuf's own way copies it twice: into its memory, and out again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from openenv_grpc.wire.varints import read_varint, varint

_LENGTH = 2  # the wire type of messages and bytes


@dataclass(frozen=True, slots=True)
class _Level:
    """A message on the way to a tensor's bytes."""

    numbers: frozenset[int]
    """Of the field that leads on."""
    repeated: bool = False


_WAY = (
    _Level(frozenset({2}), repeated=True),  # `ConnectResponse.outcomes`
    _Level(frozenset({5, 6})),  # `Outcome.step` or `reset_episode`
    _Level(frozenset({1})),  # `observation`
    _Level(frozenset({3}), repeated=True),  # `Payload.attachments`
    _Level(frozenset({2})),  # `Attachment.tensor`
    _Level(frozenset({3})),  # `Tensor.data`
)


@dataclass(frozen=True, slots=True)
class Peeled:
    """A tensor's bytes, which are most of a message, and the message without them."""

    message: bytes
    """A `ConnectResponse`, or an `Outcome`, whose tensor is empty."""
    outcome: int
    """Which of its outcomes it is, counting from 0."""
    attachment: int
    """Which attachment of the observation, counting from 0."""
    data: memoryview


@dataclass(frozen=True, slots=True)
class _Field:
    number: int
    start: int
    tag_end: int
    content: int
    end: int


def peel(data: bytes) -> Peeled | None:
    """Takes a `ConnectResponse` apart; `None` where no tensor is more than half of it.

    What is no message is not peeled: parsing says so.
    """
    try:
        return _peel(data, _WAY)
    except IndexError:
        return None


def peel_outcome(data: bytes) -> Peeled | None:
    """Takes an `Outcome` apart as `peel` does a response: `message` is an `Outcome` then."""
    try:
        return _peel(data, _WAY[1:])
    except IndexError:
        return None


def _peel(data: bytes, way: Sequence[_Level]) -> Peeled | None:
    passed: list[tuple[int, _Field, int]] = []  # where each message begins, its field, its end
    places: list[int] = []
    start, end = 0, len(data)
    for level in way:
        found = _largest(data, start, end, level)
        if found is None:
            return None
        field, place = found
        passed.append((start, field, end))
        places.append(place)
        start, end = field.content, field.end
    content = memoryview(data)[start:end]
    start, field, end = passed.pop()
    rest = data[start : field.start] + data[field.end : end]
    for start, field, end in reversed(passed):
        tag = data[field.start : field.tag_end]
        rest = b"".join(
            (data[start : field.start], tag, varint(len(rest)), rest, data[field.end : end])
        )
    *before, attachment, _, _ = places
    return Peeled(rest, before[0] if len(way) == len(_WAY) else 0, attachment, content)


def _largest(data: bytes, start: int, end: int, level: _Level) -> tuple[_Field, int] | None:
    """Returns the field that leads on, if it is more than half of all; and its place."""
    place, found = 0, None
    for field in _fields(data, start, end):
        if field.number not in level.numbers:
            continue
        if 2 * (field.end - field.content) > len(data):
            found = field, place
        place += 1
    return found if level.repeated or place == 1 else None


def _fields(data: bytes, start: int, end: int) -> Iterator[_Field]:
    """Goes through a message's fields. Raises `IndexError` for a broken one."""
    at = start
    while at < end:
        tag, tag_end = read_varint(data, at)
        content = tag_end
        match tag & 7:
            case 0:
                _, after = read_varint(data, content)
            case 1:
                after = content + 8
            case 2:
                length, content = read_varint(data, content)
                after = content + length
            case 5:
                after = content + 4
            case _:
                raise IndexError
        if after > end:
            raise IndexError
        if tag & 7 == _LENGTH:
            yield _Field(tag >> 3, at, tag_end, content, after)
        at = after
