"""What a reset or step led to, serialized by hand: the message is the one that protobuf makes."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ConfigDict

from openenv_grpc.operations import Kind, Observed, Operation
from openenv_grpc.serialization import BESIDE, model_fields
from openenv_grpc.types import Observation
from openenv_grpc.v1 import session_pb2
from openenv_grpc.wire import payloads
from openenv_grpc.wire.operations import ConnectCodec
from openenv_grpc.wire.tensors import LARGE_BYTES
from tests.wire.test_operations import SPEC

CODEC = ConnectCodec()


class Seen(Observation):
    model_config = ConfigDict(extra="allow")


def write(payload: Any, **fields: Any) -> bytes:
    kind = Kind.STEP if isinstance(payload, session_pb2.Step) else Kind.RESET
    operation = Operation(kind=kind, codec=CODEC, payload=payload, request_id=300)
    result = Observed(
        observation=Seen(**fields), reward=0.5, truncated=True, rewards={"part": 1.0},
        episode_id="e1",
    )  # fmt: skip
    return CODEC.write(operation, result, SPEC)


@pytest.mark.parametrize(
    "value",
    [
        np.arange(LARGE_BYTES, dtype=np.uint8),
        np.arange(LARGE_BYTES, dtype=np.float16).reshape(2, -1)[:, ::2],
        np.arange(LARGE_BYTES, dtype=">i4"),
        np.ones((3, LARGE_BYTES), np.bool_).T,
        b"x" * LARGE_BYTES,
        bytearray(b"y" * LARGE_BYTES),
    ],
    ids=["dense", "strided", "big_endian", "transposed", "bytes", "bytearray"],
)
@pytest.mark.parametrize("payload", [session_pb2.Step(), session_pb2.ResetEpisode()])
def test_a_large_array_arrives_beside_what_is_small(payload: Any, value: Any) -> None:
    small = np.arange(3)
    outcome = session_pb2.Outcome.FromString(
        write(payload, first=value, small=small, inner=[value, {"text": "t"}])
    )
    result = outcome.step if outcome.HasField("step") else outcome.reset_episode
    read = payloads.decode_payload(result.observation)
    assert outcome.request_id == 300
    assert (result.reward, result.truncated) == (0.5, True)
    assert {a.pointer for a in result.observation.attachments} == {"/first", "/small", "/inner/0"}
    for back in (read["first"], read["inner"][0]):
        assert (
            bytes(back) == bytes(value)
            if isinstance(value, bytes | bytearray)
            else (back.shape == value.shape and np.array_equal(back, value))
        )
    assert read["small"].tolist() == [0, 1, 2]
    assert read["inner"][1] == {"text": "t"}


def test_it_is_the_message_that_protobuf_makes() -> None:
    value = np.arange(LARGE_BYTES, dtype=np.uint8)
    data = write(session_pb2.Step(), frame=value)
    outcome = session_pb2.Outcome.FromString(data)
    assert len(outcome.SerializeToString()) == len(data)
    assert len(outcome.step.observation.attachments) == 1


NUMBERS = st.floats(allow_nan=False) | st.integers(-(2**53), 2**53) | st.booleans()
FIELDS = st.dictionaries(
    st.text(st.characters(codec="utf-8", categories=("L", "N")), min_size=1),
    st.text(max_size=300)
    | st.integers()
    | st.binary(max_size=200)
    | st.lists(st.integers(0, 255), max_size=200).map(lambda each: np.array(each, np.uint8)),
    max_size=4,
)


@given(
    number=st.integers(0, 2**63 - 1),
    fields=FIELDS,
    reward=st.none() | NUMBERS,
    done=st.booleans(),
    truncated=st.booleans(),
    rewards=st.dictionaries(st.text(max_size=5), st.floats(allow_nan=False), max_size=1),
)
def test_the_bytes_of_a_step_are_those_that_protobuf_makes(
    number: int,
    fields: dict[str, Any],
    reward: float | None,
    done: bool,
    truncated: bool,
    rewards: dict[str, float],
) -> None:
    seen = Seen(**{f"x{name}": value for name, value in fields.items()})
    result = Observed(seen, reward, done, truncated, rewards)
    operation = Operation(kind=Kind.STEP, codec=CODEC, request_id=number)
    outcome = session_pb2.Outcome(request_id=number)
    step = outcome.step
    step.SetInParent()
    payloads.encode_payload(step.observation, model_fields(seen, beside=BESIDE))
    if reward is not None:
        step.reward = float(reward)
    step.truncated, step.terminated = truncated, done and not truncated
    step.rewards.update(rewards)
    assert CODEC.write(operation, result, SPEC) == outcome.SerializeToString(deterministic=True)


@given(name=st.text(max_size=10), text=st.text(max_size=200), done=st.booleans())
def test_the_bytes_of_a_reset_are_those_that_protobuf_makes(
    name: str, text: str, done: bool
) -> None:
    seen = Seen(text=text)
    result = Observed(seen, done=done, episode_id=name)
    operation = Operation(kind=Kind.RESET, codec=CODEC, request_id=1)
    outcome = session_pb2.Outcome(request_id=1)
    begun = outcome.reset_episode
    begun.episode_id, begun.terminated = name, done
    payloads.encode_payload(begun.observation, model_fields(seen, beside=BESIDE))
    assert CODEC.write(operation, result, SPEC) == outcome.SerializeToString(deterministic=True)


def test_a_large_array_is_copied_once() -> None:
    value = np.zeros(2**23, np.uint8)
    write(session_pb2.Step(), frame=value)
    tracemalloc.start()
    try:
        write(session_pb2.Step(), frame=value)
        assert tracemalloc.get_traced_memory()[1] < 1.5 * value.nbytes
    finally:
        tracemalloc.stop()
