"""Errors on the wire."""

from __future__ import annotations

import base64
from urllib.parse import quote

import grpc
import pytest
from google.rpc import status_pb2

from openenv_grpc.errors import ERROR_TYPES, Effect, InternalError, Reason, Violation
from openenv_grpc.v1 import error_pb2
from openenv_grpc.wire.status import (
    GRPC_CODES,
    MAX_TEXT_BYTES,
    MAX_VIOLATIONS,
    decode_error,
    decode_status,
    encode_brief_error,
    encode_error,
    encode_status,
    status_message,
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


LONG = "é\n" * 100_000


def long_error() -> InternalError:
    return InternalError(
        LONG,
        violations=[Violation(path=LONG, type=LONG, message=LONG)] * 1000,
        metadata={"text": LONG, "limit": "4"},
    )


def test_an_error_is_cut_to_what_fits_into_a_message() -> None:
    message = error_pb2.Error()
    encode_error(message, long_error())
    assert len(message.message.encode()) <= MAX_TEXT_BYTES
    assert message.message.endswith("…")
    assert len(message.violations) == MAX_VIOLATIONS
    assert message.ByteSize() < 2**20
    brief = error_pb2.Error()
    encode_brief_error(brief, long_error())
    assert brief.ByteSize() < 900
    assert brief.reason == error_pb2.REASON_INTERNAL


def test_a_status_fits_into_trailing_metadata_and_its_texts_agree() -> None:
    error = long_error()
    details = encode_status(error)
    assert len(base64.b64encode(details)) + len(quote(status_message(error))) < 7000
    assert status_pb2.Status.FromString(details).message == status_message(error)
    back = decode_status(details)
    assert back is not None
    assert back.message == status_message(error)
    assert back.metadata == {"limit": "4"}


def test_texts_that_utf_8_cannot_carry_are_mended() -> None:
    broken = InternalError(
        "a\ud800b",
        violations=[Violation(path="/\udcff", type="t", message="m")],
        metadata={"\ud800": "\udfff"},
    )
    message = error_pb2.Error()
    encode_error(message, broken)
    assert message.message == "a?b"
    assert message.violations[0].path == "/?"
    assert dict(message.metadata) == {"?": "?"}
    assert decode_status(encode_status(broken)) is not None
