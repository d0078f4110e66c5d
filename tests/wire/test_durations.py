"""Durations: seconds there and back, and nothing out of range."""

from __future__ import annotations

import pytest
from google.protobuf import duration_pb2
from hypothesis import given
from hypothesis import strategies as st

from openenv_grpc.errors import InvalidRequestError
from openenv_grpc.v1 import session_pb2
from openenv_grpc.wire.durations import MAX_S, fill_duration, read_duration


@given(st.integers(min_value=1, max_value=10**15))
def test_seconds_come_back_to_the_nanosecond(nanoseconds: int) -> None:
    message = duration_pb2.Duration()
    fill_duration(message, nanoseconds / 1e9)
    assert read_duration(message, what="timeout") == nanoseconds / 1e9


def test_a_duration_of_0_is_set() -> None:
    outcome = session_pb2.Outcome()
    fill_duration(outcome.progress.elapsed_time, 0)
    assert outcome.progress.HasField("elapsed_time")
    assert read_duration(outcome.progress.elapsed_time, what="limit", least_s=0) == 0


@pytest.mark.parametrize(
    "message",
    [
        duration_pb2.Duration(),
        duration_pb2.Duration(seconds=-1),
        duration_pb2.Duration(nanos=-1),
        duration_pb2.Duration(seconds=MAX_S + 1),
        duration_pb2.Duration(seconds=2**63 - 1),
    ],
    ids=["zero", "negative", "just_negative", "too_long", "largest"],
)
def test_what_is_out_of_range_is_refused(message: duration_pb2.Duration) -> None:
    with pytest.raises(InvalidRequestError, match="timeout"):
        read_duration(message, what="timeout")
