"""Payloads that are alike but for the elements of an array: recognized, and read the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from openenv_grpc.v1 import payload_pb2
from openenv_grpc.wire.alike import PATIENCE, Alike
from openenv_grpc.wire.payloads import decode_object, encode_payload

SHAPES = arrays.array_shapes(min_dims=0, max_dims=3, min_side=1, max_side=4)
DTYPES = st.sampled_from(["int8", "uint16", "int64", "float16", "float32", "float64"])
OTHERS = st.dictionaries(st.text(), st.integers() | st.text() | st.none(), max_size=3)
FIELDS = st.text("abc", min_size=1)


def message_of(value: object) -> payload_pb2.Payload:
    message = payload_pb2.Payload()
    encode_payload(message, value)
    return payload_pb2.Payload.FromString(message.SerializeToString())


def learned(value: dict[str, Any]) -> Alike:
    alike = Alike()
    message = message_of(value)
    assert alike.recognize(message) is None
    alike.learn(message, decode_object(message, what="values"))
    return alike


@given(st.data(), OTHERS, FIELDS, DTYPES, SHAPES)
def test_what_is_alike_is_read_as_if_it_were_alone(
    data: st.DataObject, others: dict[str, Any], field: str, dtype: str, shape: tuple[int, ...]
) -> None:
    first, second = (data.draw(arrays.arrays(dtype, shape)) for _ in range(2))
    alike = learned({**others, field: first, "metadata": {}})
    message = message_of({**others, field: second, "metadata": {}})
    recognized = alike.recognize(message)
    assert recognized is not None
    fields, expected = recognized.fields(), decode_object(message, what="values")
    assert list(fields) == list(expected)
    array = fields.pop(field)
    assert (array.dtype, array.shape) == (dtype, shape)
    assert array.tobytes() == expected.pop(field).tobytes()
    assert not array.flags.writeable
    assert fields == expected


PLAIN = {"x": np.arange(4, dtype=np.float32), "n": 1}


@pytest.mark.parametrize(
    "other",
    [
        {"x": np.arange(4, dtype=np.float32), "n": 2},
        {"x": np.arange(4, dtype=np.int32), "n": 1},
        {"x": np.arange(4, dtype=np.float32).reshape(2, 2), "n": 1},
        {"x": np.arange(5, dtype=np.float32), "n": 1},
        {"y": np.arange(4, dtype=np.float32), "n": 1},
        {"x": np.arange(4, dtype=np.float32), "n": 1, "metadata": {"a": 1}},
        {"x": [0, 1, 2, 3], "n": 1},
    ],
    ids=["scalar", "type", "shape", "length", "name", "metadata", "list"],
)
def test_what_differs_in_anything_else_is_not_alike(other: dict[str, Any]) -> None:
    assert learned(PLAIN).recognize(message_of(PLAIN)) is not None
    assert learned(PLAIN).recognize(message_of(other)) is None


@pytest.mark.parametrize(
    "value",
    [
        {"x": np.zeros(2), "y": np.zeros(2)},
        {"x": {"y": np.zeros(2)}},
        {"x": np.array([True, False])},
        {"x": np.zeros(0)},
        {"x": np.zeros(2**14)},
        {"x": np.zeros(2), "rows": [1, 2]},
        {"x": np.zeros(2), "metadata": {"a": 1}},
        {"a/b": np.zeros(2)},
        {"x": b"raw"},
        {"x": 1},
        {"x": np.zeros(2), "text": "t" * 2**16},
    ],
    ids=[
        "two_arrays", "nested", "bool", "empty", "large", "list", "metadata", "pointer", "raw",
        "none", "long_text",
    ],
)  # fmt: skip
def test_what_is_not_one_small_array_and_scalars_is_always_read(value: dict[str, Any]) -> None:
    assert learned(value).recognize(message_of(value)) is None


def test_it_is_looked_for_as_long_as_it_is_found_now_and_then() -> None:
    alike = learned(PLAIN)
    for _ in range(3 * PATIENCE):
        assert alike.recognize(message_of(PLAIN)) is not None
        other = message_of({**PLAIN, "n": 2})
        assert alike.recognize(other) is None
        alike.learn(message_of(PLAIN), PLAIN)
    assert alike.looks


def test_where_nothing_is_alike_no_more_is_looked_for() -> None:
    alike = Alike()
    for number in range(PATIENCE):
        assert alike.looks
        message = message_of({**PLAIN, "n": number})
        assert alike.recognize(message) is None
        alike.learn(message, {**PLAIN, "n": number})
    assert not alike.looks
