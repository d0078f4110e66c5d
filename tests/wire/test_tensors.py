"""Tensors: whatever goes in comes out, and what does not fit together is refused."""

from __future__ import annotations

import importlib.util
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from openenv_grpc.errors import InvalidRequestError, MissingDependencyError
from openenv_grpc.v1 import tensor_pb2
from openenv_grpc.wire import tensors
from openenv_grpc.wire.tensors import decode_tensor, encode_tensor, is_array

DTYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64",
]  # fmt: skip


@given(
    st.sampled_from(DTYPES).flatmap(
        lambda name: arrays.arrays(np.dtype(name), arrays.array_shapes(min_dims=0, min_side=0))
    )
)
def test_an_array_comes_back_equal_and_of_its_type(array: np.ndarray) -> None:
    message = tensor_pb2.Tensor()
    encode_tensor(message, array)
    back = decode_tensor(tensor_pb2.Tensor.FromString(message.SerializeToString()))
    assert isinstance(back, np.ndarray)
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert back.tobytes() == array.tobytes()


@given(st.binary())
def test_bytes_come_back_as_they_are(content: bytes) -> None:
    message = tensor_pb2.Tensor()
    encode_tensor(message, content)
    assert decode_tensor(message) == content


def test_big_endian_and_strided_arrays_travel_little_endian_and_dense() -> None:
    array = np.arange(12, dtype=">i4").reshape(3, 4)[:, ::2]
    message = tensor_pb2.Tensor()
    encode_tensor(message, array)
    assert message.data == array.astype("<i4").tobytes()
    assert np.array_equal(decode_tensor(message), array)


@pytest.mark.parametrize(
    "message",
    [
        tensor_pb2.Tensor(data=b"1234", shape=[4]),
        tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_INT32, shape=[2], data=b"1234"),
        tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_INT32, shape=[-1], data=b"1234"),
        tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_INT8, shape=[-2, -2], data=b"1234"),
        tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_FLOAT64, shape=[2**31], data=b""),
        tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_UINT8, shape=[2**62, 2**62], data=b"1"),
        tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_UINT8, shape=[0, 2**62, 2**62]),
        tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_UINT8, shape=[1] * 40, data=b"1"),
        tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_RAW, shape=[3], data=b"1234"),
        tensor_pb2.Tensor(data_type=99, shape=[4], data=b"1234"),
        tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_BOOL, shape=[2], data=b"\1\2"),
    ],
    ids=[
        "no_type", "too_few_bytes", "negative", "two_negatives", "two_gigabytes", "overflow",
        "overflow_without_elements",
        "too_many_dimensions", "raw_of_other_length", "unknown_type", "neither_true_nor_false",
    ],
)  # fmt: skip
def test_what_does_not_fit_together_is_refused(message: tensor_pb2.Tensor) -> None:
    with pytest.raises(InvalidRequestError):
        decode_tensor(message)


def test_arrays_of_objects_are_no_tensors() -> None:
    assert not is_array(np.array([object()]))
    assert not is_array([1, 2])
    assert is_array(np.array([1.0]))


def test_bfloat16_comes_as_bit_patterns_where_nothing_knows_it() -> None:
    message = tensor_pb2.Tensor(
        data_type=tensor_pb2.DATA_TYPE_BFLOAT16, shape=[2], data=b"\x80\x3f\x00\xc0"
    )
    decoded = decode_tensor(message)
    assert isinstance(decoded, np.ndarray)
    assert decoded.tobytes() == message.data
    if importlib.util.find_spec("ml_dtypes") is None:
        assert (decoded.dtype, list(decoded)) == (np.uint16, [0x3F80, 0xC000])
    else:
        assert list(decoded.astype(np.float32)) == [1.0, -2.0]


def test_without_numpy_an_array_is_refused_and_the_error_names_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    message = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_UINT8, shape=[1], data=b"1")
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'openenv-grpc\[numpy\]'"):
        decode_tensor(message)
    assert not is_array(b"1")
    message = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_RAW, shape=[1], data=b"1")
    assert decode_tensor(message) == b"1"


def test_types_of_arrays_that_no_tensor_can_carry_are_not_kept_for_good() -> None:
    for length in range(1, 1000):
        assert not is_array(np.array("x" * length))
    assert tensors._data_type.cache_info().currsize < 500


@pytest.mark.parametrize(
    "array",
    [
        np.arange(10_000.0).reshape(100, 100).view(np.matrix),
        np.ma.array(np.arange(10_000.0)),
        np.ma.array(np.arange(10_000.0, dtype=">f8")),
    ],
)
def test_large_arrays_of_other_classes_travel_as_those_of_numpys_own(array: np.ndarray) -> None:
    message = tensor_pb2.Tensor()
    encode_tensor(message, array)
    _, _, data = tensors.laid_out(array)

    assert np.array_equal(decode_tensor(message), np.asarray(array))
    assert len(data) == array.nbytes
    assert bytes(data) == message.data
