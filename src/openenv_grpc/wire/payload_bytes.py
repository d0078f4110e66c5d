"""Payloads written by hand: the bytes are those that protobuf makes, in a fraction of its time.

`payloads.encode_payload` fills a message with the same.
"""

from __future__ import annotations

import functools
from typing import Any

from openenv_grpc.v1 import payload_pb2
from openenv_grpc.wire import payloads, tensors
from openenv_grpc.wire.varints import varint

Piece = bytes | bytearray | memoryview

# Tags of fields: the number, and how what follows is written.
_JSON = b"\x0a"  # Payload.json = 1
_ATTACHMENTS = b"\x1a"  # Payload.attachments = 3
_TENSOR = b"\x12"  # Attachment.tensor = 2
_DATA = b"\x1a"  # Tensor.data = 3


def write_payload(value: object) -> bytes:
    """Writes a value. Arrays and bytes go beside the JSON, never into it.

    Raises:
        UnserializableResultError: the value holds something that JSON cannot carry.
    """
    text, apart = payloads.take_apart(value)
    head = json_head(len(text))
    if not apart:
        return head + text
    return b"".join((head, text, *attachments_of(apart)))


@functools.lru_cache(maxsize=1024)
def json_head(size: int) -> bytes:
    """Writes what stands before the JSON of a payload."""
    return _JSON + varint(size)


def attachments_of(apart: payloads.Apart) -> list[Piece]:
    """Returns attachments in pieces, such that the elements are not copied."""
    pieces: list[Piece] = []
    for pointer, value in apart:
        dtype, shape, data = tensors.laid_out(value)
        pieces += (attachment_head(pointer, dtype, shape, len(data)), data)
    return pieces


_KEPT_POINTER = 256
"""Characters of a pointer that may be kept; it may have been chosen by a peer."""


def attachment_head(pointer: str, dtype: Any, shape: tuple[int, ...], size: int) -> bytes:
    """Writes what stands before the elements: of numpy's data type, or raw for `None`."""
    if len(pointer) > _KEPT_POINTER:
        return _attachment_head.__wrapped__(pointer, dtype, shape, size)
    return _attachment_head(pointer, dtype, shape, size)


@functools.lru_cache(maxsize=1024)  # an environment's arrays are alike in every step
def _attachment_head(pointer: str, dtype: Any, shape: tuple[int, ...], size: int) -> bytes:
    tensor = tensors.description(dtype, shape).SerializeToString()
    if size:
        tensor += _DATA + varint(size)
    head = payload_pb2.Attachment(pointer=pointer).SerializeToString()
    head += _TENSOR + varint(len(tensor) + size) + tensor
    return _ATTACHMENTS + varint(len(head) + size) + head
