"""Errors on the wire."""

from __future__ import annotations

import grpc
import pytest
from google.rpc import status_pb2

from openenv_grpc.errors import ERROR_TYPES, Effect, InternalError, Reason, Violation
from openenv_grpc.v1 import error_pb2
from openenv_grpc.wire.status import (
    GRPC_CODES,
    decode_error,
    decode_status,
    encode_error,
    encode_status,
)


@pytest.mark.parametrize("reason", Reason)
def test_each_reason_has_a_grpc_code_and_comes_back_as_its_own_error(reason: Reason) -> None:
    error = ERROR_TYPES[reason](
        "what happened and what to do",
        effect=Effect.DONE,
        session_lost=True,
        retry_delay_s=1.5,
        violations=[Violation(path="/a", type="missing", message="Field required")],
        metadata={"limit": "4"},
    )
    details = encode_status(error)
    code = grpc.StatusCode[GRPC_CODES[reason]]
    assert status_pb2.Status.FromString(details).code == code.value[0]
    back = decode_status(details)
    assert type(back) is ERROR_TYPES[reason]
    assert vars(back) == vars(error)


def test_an_unknown_reason_of_a_newer_server_is_an_internal_error() -> None:
    back = decode_error(error_pb2.Error(reason=999, message="new", effect=7))
    assert isinstance(back, InternalError)
    assert back.effect is Effect.UNKNOWN
    assert back.retry_delay_s is None


@pytest.mark.parametrize("details", [b"", b"\xff", status_pb2.Status(code=5).SerializeToString()])
def test_details_of_others_have_no_error_of_ours(details: bytes) -> None:
    assert decode_status(details) is None


def test_an_error_without_facts_takes_none() -> None:
    message = error_pb2.Error()
    encode_error(message, InternalError("x"))
    assert not message.HasField("retry_delay")
    assert message.effect == error_pb2.EFFECT_NONE
