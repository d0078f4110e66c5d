"""Operations as bytes: those that protobuf makes of the same message."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv_grpc.client import operations
from openenv_grpc.errors import InvalidRequestError
from openenv_grpc.v1 import session_pb2
from openenv_grpc.wire.payloads import encode_payload

IDS = st.integers(1, 300) | st.integers(1, 2**63 - 1)
ACTIONS = st.dictionaries(st.text(), st.integers() | st.text() | st.binary(), max_size=4)
TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@given(IDS, IDS | st.just(0), ACTIONS, ACTIONS, st.none() | st.floats(1e-9, 1e6), st.booleans())
def test_a_step_is_written_as_protobuf_writes_it(
    request_id: int,
    acknowledged_id: int,
    action: dict[str, Any],
    keywords: dict[str, Any],
    timeout_s: float | None,
    traced: bool,
) -> None:
    expected = session_pb2.Operation(request_id=request_id, acknowledged_id=acknowledged_id)
    encode_payload(expected.step.action, action)
    if keywords:
        encode_payload(expected.step.options, keywords)
    if timeout_s is not None:
        expected.timeout.FromNanoseconds(max(1, round(timeout_s * 1e9)))
    if traced:
        expected.traceparent = TRACEPARENT
    written = operations.numbered(
        operations.step(operations.payload(action), keywords),
        request_id,
        acknowledged_id,
        timeout_s,
        TRACEPARENT if traced else "",
    )
    assert written == expected.SerializeToString()


def test_arrays_of_other_operations_travel_as_bytes_too() -> None:
    array = np.arange(3, dtype=np.float32)
    reset = session_pb2.Operation.FromString(operations.reset_episode({"seed": 1, "map": array}))
    call = session_pb2.Operation.FromString(operations.call_tool("look", {"map": array}))
    assert reset.reset_episode.seed == 1
    for payload in (reset.reset_episode.options, call.call_tool.arguments):
        assert payload.json == '{"map":null}'
        assert payload.attachments[0].tensor.data == array.tobytes()


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (operations.payload, "the action"),
        (partial(operations.step, b""), "step's keywords"),
        (operations.reset_episode, "reset's keywords"),
        (partial(operations.call_tool, "look"), "the arguments of look"),
    ],
    ids=["action", "step", "reset", "tool"],
)
def test_what_cannot_be_sent_is_told_by_its_name(
    make: Callable[[dict[str, object]], bytes], name: str
) -> None:
    with pytest.raises(InvalidRequestError, match=f"^{name} cannot be sent"):
        make({"x": object()})
