"""Large arrays, left in the message that was received, arrive as if it had been parsed whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from openenv_grpc.v1 import session_pb2
from openenv_grpc.wire import payloads
from openenv_grpc.wire.peeling import Peeled, peel, peel_outcome

LARGE = np.arange(100_000, dtype=np.uint8)


def response(arm: str = "step", before: int = 0, **fields: Any) -> session_pb2.ConnectResponse:
    message = session_pb2.ConnectResponse()
    for number in range(before):
        message.outcomes.add(session=9, request_id=number + 1).close.step_count = number
    outcome = message.outcomes.add(session=3, request_id=300)
    result = getattr(outcome, arm)
    payloads.encode_payload(result.observation, fields)
    result.reward = 0.5
    result.truncated = True
    return message


def peeled_of(message: session_pb2.ConnectResponse) -> Peeled:
    peeled = peel(message.SerializeToString())
    assert peeled is not None
    return peeled


def decoded(peeled: Peeled, arm: str = "step") -> dict[str, Any]:
    outcome = session_pb2.ConnectResponse.FromString(peeled.message).outcomes[peeled.outcome]
    return payloads.decode_object(getattr(outcome, arm).observation, what="it", peeled=peeled)


@pytest.mark.parametrize("arm", ["step", "reset_episode"])
@pytest.mark.parametrize("before", [0, 2])
@pytest.mark.parametrize("value", [LARGE, LARGE.view("float32"), LARGE % 2 == 1, LARGE.tobytes()])
def test_an_observation_is_the_same_as_parsed_whole(arm: str, before: int, value: Any) -> None:
    message = response(arm, before, small=np.arange(3), large=value, also=np.arange(4), text="t")
    peeled = peeled_of(message)
    assert len(peeled.message) < 1000
    assert (peeled.outcome, peeled.attachment) == (before, 1)
    found = decoded(peeled, arm)
    assert type(found["large"]) is type(value)
    assert_array_equal(found["large"], value)
    assert_array_equal(found["small"], np.arange(3))
    assert_array_equal(found["also"], np.arange(4))
    assert found["text"] == "t"


def test_its_bytes_are_not_copied_but_where_they_lie_badly() -> None:
    for padding in range(8):
        message = response(large=LARGE, text="t" * padding)
        frame = decoded(peeled_of(message))["large"]
        assert not frame.flags.owndata
        assert not frame.flags.writeable
        numbers = decoded(peeled_of(response(large=LARGE.view("float64"), text="t" * padding)))
        assert numbers["large"].flags.aligned
        assert not numbers["large"].flags.writeable


def test_what_is_no_large_array_of_an_observation_stays_where_it_is() -> None:
    whole = response(text="t" * 100_000)
    halves = response(one=LARGE, other=LARGE)
    state = session_pb2.ConnectResponse()
    payloads.encode_payload(state.outcomes.add().get_state.state, {"large": LARGE})
    assert peel(whole.SerializeToString()) is None
    assert peel(halves.SerializeToString()) is None
    assert peel(state.SerializeToString()) is None
    assert peel(b"") is None


@given(st.binary(max_size=200), st.integers(0, 300))
def test_broken_messages_are_left_to_the_parser(noise: bytes, at: int) -> None:
    peel(noise)
    data = response(large=LARGE[:200]).SerializeToString()
    broken = data[:at] + noise + data[at:]
    peeled = peel(broken)
    assert peeled is None or len(peeled.message) + len(peeled.data) <= len(broken)


def test_an_outcome_by_itself_is_peeled_alike() -> None:
    outcome = response("step", 0, small=np.arange(3), large=LARGE).outcomes[0]
    peeled = peel_outcome(outcome.SerializeToString())
    assert peeled is not None
    assert len(peeled.message) < 1000
    found = session_pb2.Outcome.FromString(peeled.message)
    assert (found.session, found.request_id, peeled.attachment) == (3, 300, 1)
    seen = payloads.decode_object(found.step.observation, what="it", peeled=peeled)
    assert_array_equal(seen["large"], LARGE)


@given(st.binary(max_size=300))
def test_what_is_no_outcome_is_not_peeled_and_raises_nothing(data: bytes) -> None:
    peel_outcome(b"\x2a" + data)
