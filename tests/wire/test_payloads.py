"""Payloads: JSON with arrays and bytes beside it."""

from __future__ import annotations

import datetime
import enum
from collections import OrderedDict, defaultdict
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv_grpc.errors import (
    InvalidActionError,
    InvalidRequestError,
    NotSupportedError,
    UnserializableResultError,
)
from openenv_grpc.serialization import ActionReader
from openenv_grpc.types import Action
from openenv_grpc.v1 import payload_pb2
from openenv_grpc.wire.actions import read_action
from openenv_grpc.wire.payloads import decode_payload, encode_payload
from openenv_grpc.wire.tensors import encode_tensor

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.binary()
)
VALUES = st.recursive(
    LEAVES, lambda child: st.lists(child) | st.dictionaries(st.text(), child), max_leaves=20
)


def through(value: object) -> Any:
    message = payload_pb2.Payload()
    encode_payload(message, value)
    return decode_payload(payload_pb2.Payload.FromString(message.SerializeToString()))


@given(VALUES)
def test_a_value_comes_back_equal_and_of_its_type(value: Any) -> None:
    back = through(value)
    assert back == value
    assert type(back) is type(value)


def test_arrays_and_bytes_never_become_json() -> None:
    value = {"frames": [np.zeros((2, 3), np.uint8), None], "a/b~c": {"raw": b"\xff\x00"}, "n": 1}
    message = payload_pb2.Payload()
    encode_payload(message, value)
    assert message.json == '{"frames":[null,null],"a/b~c":{"raw":null},"n":1}'
    assert [entry.pointer for entry in message.attachments] == ["/frames/0", "/a~1b~0c/raw"]
    back = decode_payload(message)
    assert np.array_equal(back["frames"][0], np.zeros((2, 3)))
    assert back["frames"][0].dtype == np.uint8
    assert back["a/b~c"]["raw"] == b"\xff\x00"


@pytest.mark.parametrize("key", [1, -1, 1.5, True, None, "a~/b", datetime.date(2020, 1, 2)])
def test_an_attachment_finds_its_place_under_any_key(key: object) -> None:
    back = through({"x": {key: b"raw"}})
    assert list(back["x"].values()) == [b"raw"]


def test_containers_of_other_kinds_are_searched_too() -> None:
    class Pair(NamedTuple):
        name: str
        raw: bytes

    value = OrderedDict(pair=Pair("a", b"1"), rest=defaultdict(list, b=[b"2"]))
    assert through(value) == {"pair": ["a", b"1"], "rest": {"b": [b"2"]}}


def test_encoding_leaves_the_value_as_it_is() -> None:
    value = {"nested": {"raw": b"1"}, "list": [b"2"]}
    encode_payload(payload_pb2.Payload(), value)
    assert value == {"nested": {"raw": b"1"}, "list": [b"2"]}


def test_numbers_that_json_has_not_become_the_names_that_number_fields_take() -> None:
    class Throw(Action):
        force: float

    assert through([float("nan"), float("inf"), -float("inf")]) == ["NaN", "Infinity", "-Infinity"]
    message = payload_pb2.Payload(json='{"force":"-Infinity"}')
    assert read_action(message, ActionReader(Throw)).force == -float("inf")


def test_integers_are_exact_at_any_size() -> None:
    assert through({"big": 2**70}) == {"big": 2**70}


def test_other_values_become_what_pydantic_makes_of_them() -> None:
    assert through(datetime.datetime(2020, 1, 2, 3, 4, 5)) == "2020-01-02T03:04:05"
    assert through((1, 2)) == [1, 2]
    assert through(np.float32(1.5)) == 1.5


def test_what_cannot_be_written_is_refused() -> None:
    with pytest.raises(UnserializableResultError):
        encode_payload(payload_pb2.Payload(), {"x": object()})


def test_an_action_with_an_array_is_validated_whole() -> None:
    class Paint(Action):
        canvas: np.ndarray

    message = payload_pb2.Payload()
    encode_payload(message, {"canvas": np.ones(3, np.float32)})
    assert np.array_equal(read_action(message, ActionReader(Paint)).canvas, np.ones(3))
    with pytest.raises(InvalidActionError):
        read_action(payload_pb2.Payload(json='{"canvas":[1,1]}'), ActionReader(Paint))


def attached(json: str, pointer: str) -> payload_pb2.Payload:
    message = payload_pb2.Payload(json=json)
    attachment = message.attachments.add(pointer=pointer)
    encode_tensor(attachment.tensor, b"x")
    return message


@pytest.mark.parametrize(
    "message",
    [
        payload_pb2.Payload(),
        payload_pb2.Payload(json=""),
        payload_pb2.Payload(json="{"),
        payload_pb2.Payload(json="[" * 10_000),
        attached('{"a":1}', "/a"),
        attached('{"a":null}', "/b"),
        attached('{"a":null}', "a"),
        attached("[null]", "/1"),
        attached("[null]", "/-1"),
        attached("[null]", "/00"),
        attached("[null]", "/" + "9" * 30),
        attached("3", ""),
        attached("3", "/x"),
    ],
    ids=[
        "nothing", "empty", "cut", "too_deep", "not_null", "no_such_key", "no_slash", "past_end",
        "negative_index", "leading_zero", "huge_index", "whole_not_null", "into_a_number",
    ],
)  # fmt: skip
def test_what_is_malformed_is_refused(message: payload_pb2.Payload) -> None:
    with pytest.raises(InvalidRequestError):
        decode_payload(message)


def test_typed_payloads_are_not_taken_yet() -> None:
    message = payload_pb2.Payload()
    message.typed.type_url = "type.googleapis.com/x.Y"
    with pytest.raises(NotSupportedError):
        decode_payload(message)


class _Limb(str, enum.Enum):  # noqa: UP042  # whose `str` differs from its value
    ARM = "arm/left"


class _Joint(int, enum.Enum):
    KNEE = 2


@pytest.mark.parametrize(("key", "name"), [(_Limb.ARM, "arm/left"), (_Joint.KNEE, "2")])
def test_an_array_under_a_member_of_an_enumeration_goes_where_the_json_has_it(
    key: object, name: str
) -> None:
    message = payload_pb2.Payload()
    encode_payload(message, {key: np.arange(3)})

    value = decode_payload(message)

    assert isinstance(value, dict)
    assert [*value] == [name]
    assert np.array_equal(value[name], np.arange(3))
