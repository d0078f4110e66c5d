"""Actions with arrays: each is read as it is, however many were alike before it."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pytest
from numpy.typing import NDArray

from openenv_grpc import Action, Array
from openenv_grpc.errors import InvalidActionError
from openenv_grpc.serialization import ActionReader
from openenv_grpc.v1 import payload_pb2
from openenv_grpc.wire.actions import read_action
from openenv_grpc.wire.payloads import encode_payload


class Push(Action):
    force: Annotated[NDArray[np.float32], Array((3,))]
    name: str = ""


def message_of(value: object) -> payload_pb2.Payload:
    message = payload_pb2.Payload()
    encode_payload(message, value)
    return payload_pb2.Payload.FromString(message.SerializeToString())


def force(*values: float) -> NDArray[Any]:
    return np.array(values, np.float32)


def test_actions_that_are_alike_are_read_as_they_are() -> None:
    reader = ActionReader(Push)
    for number in range(8):
        sent = force(number, -number, 0.5)
        read = read_action(message_of({"force": sent, "name": "north"}), reader)
        assert np.array_equal(read.force, sent)
        assert read.name == "north"


def test_actions_that_look_different_each_time_are_read_as_they_are() -> None:
    reader = ActionReader(Push)
    for number in range(20):
        read = read_action(message_of({"force": force(1, 2, 3), "name": "n" * number}), reader)
        assert (read.force.tolist(), read.name) == ([1, 2, 3], "n" * number)


@pytest.mark.parametrize(
    "other",
    [{"force": force(1, 2)}, {"force": np.zeros(3, np.int32)}, {"force": force(1, 2, 3), "x": 1}],
    ids=["shape", "dtype", "field"],
)
def test_what_is_refused_alone_is_refused_among_many_that_are_not(other: object) -> None:
    reader = ActionReader(Push)
    for _ in range(3):
        read_action(message_of({"force": force(1, 2, 3)}), reader)
        with pytest.raises(InvalidActionError):
            read_action(message_of(other), reader)


def test_readers_of_two_environments_do_not_mix_what_they_know() -> None:
    class Pull(Action):
        force: Annotated[NDArray[np.float32], Array((2,))]

    message = message_of({"force": force(1, 2, 3)})
    push, pull = ActionReader(Push), ActionReader(Pull)
    read_action(message, push)
    assert read_action(message, push).force.shape == (3,)
    with pytest.raises(InvalidActionError):
        read_action(message, pull)
