"""Payloads that are alike but for the elements of one array, so that nothing else need be read."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from openenv_grpc.arrays import array_type
from openenv_grpc.serialization import parse_json_object
from openenv_grpc.types import JsonValue
from openenv_grpc.v1 import payload_pb2
from openenv_grpc.wire import payloads, tensors

PATIENCE = 4
"""How many more payloads may be unlike the last one than are like it, before none is looked for."""

_MOST_CREDIT = 1000
_MOST_BYTES = 64 * 2**10


@dataclass(frozen=True, slots=True, eq=False)
class Likeness:
    """What such payloads have in common."""

    head: bytes
    """A payload as protobuf writes it, up to the elements, which are the last of it."""
    size_bytes: int
    """Of a whole payload."""
    text: str
    """The JSON."""
    field: str
    """Where the array is."""
    dtype: Any
    shape: tuple[int, ...]

    def fields(self) -> dict[str, JsonValue]:
        """Returns what all of them say, with `None` for the array."""
        return parse_json_object(self.text)


@dataclass(slots=True, eq=False)  # not frozen, which takes thrice as long to make
class AlikePayload:
    """One of them."""

    likeness: Likeness
    data: bytes
    """As protobuf writes it."""

    def fields(self) -> dict[str, Any]:
        """Returns what it says. The array is read-only."""
        known = self.likeness
        fields = known.fields()
        elements = self.data[len(known.head) :]
        fields[known.field] = array_type()(known.shape, known.dtype, elements)
        return fields


class Alike:
    """Recognizes payloads that are like the last one."""

    def __init__(self) -> None:
        self.looks = True
        """Whether there may be such payloads."""
        self._known: Likeness | None = None
        self._credit = PATIENCE

    def recognize(self, message: payload_pb2.Payload) -> AlikePayload | None:
        """Returns a payload that is like the last one; `None` if it has to be read."""
        known = self._known
        if known is None:
            return None
        data = message.SerializeToString()
        if len(data) == known.size_bytes and data.startswith(known.head):
            if self._credit < _MOST_CREDIT:
                self._credit += 1
            return AlikePayload(known, data)
        return None

    def learn(self, message: payload_pb2.Payload, value: dict[str, Any]) -> None:
        """Learns how a payload looks that had to be read, as `value`."""
        self._known = _likeness(message, value)
        self._credit -= 1
        self.looks = self._credit > 0


def _likeness(message: payload_pb2.Payload, value: dict[str, Any]) -> Likeness | None:
    """Returns what others may have in common with a payload of one small array, and scalars."""
    attachments = message.attachments
    if len(attachments) != 1 or sys.byteorder == "big":
        return None
    pointer, elements = attachments[0].pointer, attachments[0].tensor.data
    field = pointer[1:]
    array: Any = value.get(field)
    data = message.SerializeToString()
    if (
        pointer != f"/{field}"
        or not tensors.is_array(array)  # or its place is deeper within
        or array.dtype == bool  # whose elements have to be looked at
        or not 0 < len(elements) < tensors.LARGE_BYTES
        or len(data) > _MOST_BYTES  # since it is kept
        or not data.endswith(elements)
        or not payloads.is_flat(
            [each for each in value.values() if each is not array and each != {}]
        )
    ):
        return None
    head = data[: -len(elements)]
    return Likeness(head, len(data), message.json, field, array.dtype, array.shape)
