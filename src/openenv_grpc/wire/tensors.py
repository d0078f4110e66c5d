"""Arrays and bytes to `Tensor` messages and back, with one copy at most on each side."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from openenv_grpc import arrays
from openenv_grpc.errors import InvalidRequestError, MissingDependencyError
from openenv_grpc.v1 import tensor_pb2

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BYTES = (bytes, bytearray)
LARGE_BYTES = 16 * 2**10
"""From which size on a look at an array's memory costs less than a copy of it."""
RAW = tensor_pb2.DATA_TYPE_RAW

_NAMES = {
    tensor_pb2.DATA_TYPE_BOOL: "bool",
    tensor_pb2.DATA_TYPE_INT8: "int8",
    tensor_pb2.DATA_TYPE_INT16: "int16",
    tensor_pb2.DATA_TYPE_INT32: "int32",
    tensor_pb2.DATA_TYPE_INT64: "int64",
    tensor_pb2.DATA_TYPE_UINT8: "uint8",
    tensor_pb2.DATA_TYPE_UINT16: "uint16",
    tensor_pb2.DATA_TYPE_UINT32: "uint32",
    tensor_pb2.DATA_TYPE_UINT64: "uint64",
    tensor_pb2.DATA_TYPE_FLOAT16: "float16",
    tensor_pb2.DATA_TYPE_BFLOAT16: "bfloat16",
    tensor_pb2.DATA_TYPE_FLOAT32: "float32",
    tensor_pb2.DATA_TYPE_FLOAT64: "float64",
}
_TYPES = {name: data_type for data_type, name in _NAMES.items()}


def is_array(value: object) -> bool:
    """Tells whether a value is a numpy array that a tensor can carry."""
    numpy = sys.modules.get("numpy")  # where it was never imported there are no arrays
    return (
        numpy is not None
        and isinstance(value, numpy.ndarray)
        and _data_type(value.dtype) is not None
    )


@functools.lru_cache(maxsize=256)  # of arrays of text each length is a type
def _data_type(dtype: Any) -> tensor_pb2.DataType.ValueType | None:
    """Returns the data type of numpy's; a look at its name takes microseconds."""
    return _TYPES.get(dtype.name)


def encode_tensor(message: tensor_pb2.Tensor, value: NDArray[Any] | bytes | bytearray) -> None:
    """Fills a tensor from an array, or from bytes as they are."""
    dtype, shape, data = laid_out(value)
    message.CopyFrom(description(dtype, shape))
    message.data = bytes(data)


def laid_out(
    value: NDArray[Any] | bytes | bytearray,
) -> tuple[Any, tuple[int, ...], bytes | bytearray | memoryview]:
    """Returns numpy's data type, `None` for bytes as they are, the shape, and the elements.

    Many elements are not copied if they lie as a tensor has them. Those of matrices and masked
    arrays are, whose memory is shown otherwise.
    """
    if isinstance(value, _BYTES):
        return None, (len(value),), value
    dtype, shape = value.dtype, value.shape
    order = dtype.byteorder
    if order == ">" or (sys.byteorder == "big" and order == "="):
        value = value.astype(dtype.newbyteorder("<"))
    if value.nbytes < LARGE_BYTES or type(value) is not arrays.array_type():
        return dtype, shape, value.tobytes()
    return dtype, shape, value.ravel().view("uint8").data


def description(dtype: Any, shape: tuple[int, ...]) -> tensor_pb2.Tensor:
    """Makes a tensor without its elements: of numpy's data type, or raw for `None`."""
    if dtype is None:
        return tensor_pb2.Tensor(data_type=RAW, shape=shape)
    known = _data_type(dtype)
    return tensor_pb2.Tensor(data_type=_TYPES[dtype.name] if known is None else known, shape=shape)


def decode_tensor(
    message: tensor_pb2.Tensor, apart: memoryview | None = None
) -> NDArray[Any] | bytes:
    """Returns the array, read-only and over the message's own bytes; or the bytes.

    `apart` has the bytes where they were taken out of the message.

    `bfloat16` needs the package ml_dtypes, and without it comes as `uint16` bit patterns.

    Raises:
        InvalidRequestError: type, shape and number of bytes do not fit together.
        MissingDependencyError: it is an array, and numpy is not installed.
    """
    data: bytes | memoryview = message.data if apart is None else apart
    shape = tuple(message.shape[:])  # as a list, which is gone through sooner
    name = _checked(message.data_type, shape, len(data))
    if not name:
        return bytes(data)  # which copies none that are bytes already
    if name == "bool" and bytes(data).translate(None, b"\0\1"):
        raise InvalidRequestError("a tensor of bool has bytes 0 and 1 alone")
    try:
        return arrays.view(data, name, shape)
    except ImportError as error:
        raise MissingDependencyError(
            "arrays need numpy: pip install 'openenv-grpc[numpy]'"
        ) from error


@functools.lru_cache(maxsize=1024)  # an environment's arrays are alike in every step
def _checked(
    data_type: tensor_pb2.DataType.ValueType, shape: tuple[int, ...], found_bytes: int
) -> str:
    """Names a tensor's element type; empty for raw bytes.

    Raises:
        InvalidRequestError: type, shape and number of bytes do not fit together.
    """
    told = list(shape)
    if data_type == RAW:
        if told != [found_bytes]:
            raise InvalidRequestError(
                f"a raw tensor of {found_bytes} bytes has the shape [{found_bytes}], not {told}"
            )
        return ""
    name = _NAMES.get(data_type)
    if name is None:
        raise InvalidRequestError(f"tensor of unknown data type {data_type}")
    size_bytes = arrays.size_of(shape, name)
    if size_bytes is None:
        raise InvalidRequestError(
            f"a tensor's shape has up to {arrays.MAX_DIMENSIONS} lengths of at least 0, whose "
            f"product numpy can hold, unlike {told}"
        )
    if size_bytes != found_bytes:
        raise InvalidRequestError(
            f"a tensor of {name} and shape {told} has {size_bytes} bytes, not {found_bytes}"
        )
    return name
