"""What the protos promise beyond what buf checks: numbers shared with Python, arms shared."""

from __future__ import annotations

import enum

import pytest
from google.protobuf.descriptor import EnumDescriptor

from openenv_grpc.errors import Effect, Reason
from openenv_grpc.sessions import CancelEffect
from openenv_grpc.v1 import error_pb2, session_pb2


@pytest.mark.parametrize(
    ("python", "proto", "prefix"),
    [
        (Reason, error_pb2.Reason.DESCRIPTOR, "REASON_"),
        (Effect, error_pb2.Effect.DESCRIPTOR, "EFFECT_"),
        (CancelEffect, session_pb2.CancelEffect.DESCRIPTOR, "CANCEL_EFFECT_"),
    ],
    ids=["reason", "effect", "cancel_effect"],
)
def test_enums_have_the_names_and_numbers_of_the_proto(
    python: type[enum.IntEnum], proto: EnumDescriptor, prefix: str
) -> None:
    wire = {value.name.removeprefix(prefix): value.number for value in proto.values}
    assert wire.pop("UNSPECIFIED") == 0
    assert {member.name: member.value for member in python} == wire


def test_operations_and_outcomes_have_the_same_arms_and_numbers() -> None:
    operation = session_pb2.Operation.DESCRIPTOR.oneofs_by_name["kind"]
    outcome = session_pb2.Outcome.DESCRIPTOR.oneofs_by_name["kind"]
    asked = {field.name: field.number for field in operation.fields}
    answered = {field.name: field.number for field in outcome.fields}
    assert answered.pop("progress") == 14
    assert answered.pop("error") == 15
    assert answered.pop("event") == 16
    assert asked == answered
