"""Payloads as protobuf would serialize them, written by hand, in a fraction of its time.

`payloads.encode_payload` fills a message with the same.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from openenv_grpc.serialization import dump_json
from openenv_grpc.wire import payloads, tensors
from openenv_grpc.wire.varints import varint

if TYPE_CHECKING:
    from numpy.typing import NDArray

_JSON = b"\x0a"  # field 1 of a `Payload`: `json`
_ATTACHMENT = b"\x1a"  # field 3: `attachments`
_POINTER, _TENSOR = b"\x0a", b"\x12"  # fields 1 and 2 of an `Attachment`
_TYPE, _SHAPE, _DATA = b"\x08", b"\x12", b"\x1a"  # fields 1 to 3 of a `Tensor`

_HEADS = 1024


def write_payload(value: object) -> bytes:
    """Writes a value. Arrays and bytes go beside the JSON, never into it.

    Raises:
        UnserializableResultError: the value holds something that JSON cannot carry.
    """
    beside: list[tuple[str, Any]] = []
    value = payloads.lift(value, lambda pointer, array: beside.append((pointer, array)))
    written = write_json(value)
    if not beside:
        return written
    return b"".join((written, *(_write_attachment(*attached) for attached in beside)))


def write_json(value: object) -> bytes:
    """Writes a value that has no arrays or bytes. Raises `UnserializableResultError`."""
    text = dump_json(value, non_finite="strings")
    return b"".join((_JSON, varint(len(text)), text))


def _write_attachment(pointer: str, value: NDArray[Any] | bytes | bytearray) -> bytes:
    data_type, shape = tensors.description(value)
    content = tensors.bytes_of(value)
    return b"".join((attachment_head(pointer, data_type, shape, len(content)), content))


@functools.lru_cache(maxsize=_HEADS)
def attachment_head(pointer: str, data_type: int, shape: tuple[int, ...], size_bytes: int) -> bytes:
    """Writes what comes before an attachment's bytes, which is the same for each array alike."""
    lengths = b"".join(map(varint, shape))
    tensor = [_TYPE, varint(data_type)]
    if lengths:
        tensor += [_SHAPE, varint(len(lengths)), lengths]
    if size_bytes:
        tensor += [_DATA, varint(size_bytes)]
    tensor_bytes = sum(map(len, tensor)) + size_bytes
    name = pointer.encode()
    attachment = [_TENSOR, varint(tensor_bytes), *tensor]
    if name:
        attachment = [_POINTER, varint(len(name)), name, *attachment]
    return b"".join((_ATTACHMENT, varint(sum(map(len, attachment)) + size_bytes), *attachment))
