"""Outcomes with large arrays, serialized such that each array is copied once.

Protobuf's own way copies it three times: into the message, into its memory, and out again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from openenv_grpc.v1 import payload_pb2, session_pb2
from openenv_grpc.wire.tensors import bytes_of, describe_tensor
from openenv_grpc.wire.varints import varint

if TYPE_CHECKING:
    from numpy.typing import NDArray

LARGE_BYTES = 16 * 2**10
"""From which size on the detour pays."""

Piece = bytes | bytearray | memoryview
Apart = list[tuple[str, "NDArray[Any] | bytes | bytearray"]]
"""Arrays and bytes that are not in their payload yet, by their JSON pointers."""

_DELIMITED = 2  # the wire type of messages and bytes


def serialize(outcome: session_pb2.Outcome, arm: str, apart: Apart) -> bytes:
    """Serializes an outcome with what is `apart` from its observation, and takes it apart for it.

    `arm` is the outcome's result, which has the observation.
    """
    result: session_pb2.StepResult | session_pb2.ResetEpisodeResult = getattr(outcome, arm)
    pieces: list[Piece] = [result.observation.SerializeToString()]
    for pointer, value in apart:
        pieces += _attachment(pointer, value)
    pieces = _field(result, "observation", pieces)
    result.ClearField("observation")
    pieces = _field(outcome, arm, [result.SerializeToString(), *pieces])
    outcome.ClearField(arm)  # type: ignore[arg-type]  # an arm's name
    return b"".join((outcome.SerializeToString(), *pieces))


def _attachment(pointer: str, value: NDArray[Any] | bytes | bytearray) -> list[Piece]:
    attachment = payload_pb2.Attachment(pointer=pointer)
    head = attachment.SerializeToString()
    tensor = attachment.tensor
    describe_tensor(tensor, value)
    pieces: list[Piece] = [tensor.SerializeToString(), *_field(tensor, "data", [bytes_of(value)])]
    pieces = [head, *_field(attachment, "tensor", pieces)]
    return _field(payload_pb2.Payload(), "attachments", pieces)


def _field(message: Any, name: str, pieces: Sequence[Piece]) -> list[Piece]:
    """Puts a field's tag and length before its content."""
    number = message.DESCRIPTOR.fields_by_name[name].number
    size = sum(map(len, pieces))
    return [varint(number << 3 | _DELIMITED) + varint(size), *pieces]
