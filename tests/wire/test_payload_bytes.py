"""Payloads written by hand: the bytes that protobuf itself would make."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from openenv_grpc.errors import UnserializableResultError
from openenv_grpc.v1 import payload_pb2
from openenv_grpc.wire.payload_bytes import write_payload
from openenv_grpc.wire.payloads import encode_payload

ARRAYS = arrays.arrays(
    st.sampled_from(["bool", "int8", "uint16", "<i4", ">i4", "int64", "float16", "<f4", ">f8"]),
    arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5),
)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | ARRAYS
VALUES = st.recursive(
    LEAVES, lambda child: st.lists(child) | st.dictionaries(st.text(), child), max_leaves=20
)


def by_protobuf(value: object) -> bytes:
    message = payload_pb2.Payload()
    encode_payload(message, value)
    return message.SerializeToString()


@given(VALUES)
def test_a_payload_is_written_as_protobuf_writes_it(value: Any) -> None:
    assert write_payload(value) == by_protobuf(value)


@pytest.mark.parametrize("size", [0, 1, 127, 128, 4_095, 4_096, 16_383, 16_384, 2_097_152])
def test_lengths_of_any_size_are_written_as_protobuf_writes_them(size: int) -> None:
    values = ["t" * size, b"r" * size, np.ones(size, np.uint8), np.ones((2, size), np.float32)]
    for value in ({"x": each} for each in values):
        assert write_payload(value) == by_protobuf(value)


def test_what_json_cannot_carry_is_refused() -> None:
    nested: list[Any] = []
    nested.append(nested)
    for value in ({"x": object()}, {"x": nested}):
        with pytest.raises(UnserializableResultError):
            write_payload(value)
