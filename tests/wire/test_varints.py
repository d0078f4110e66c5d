"""Protobuf's integers, written and read by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv_grpc.v1 import session_pb2
from openenv_grpc.wire.varints import read_varint, varint


@given(st.integers(-(2**63), 2**63 - 1).filter(bool))
def test_a_number_is_written_as_protobuf_writes_it(number: int) -> None:
    outcome = session_pb2.Outcome(request_id=number)
    assert b"\x10" + varint(number) == outcome.SerializeToString()


@given(st.integers(0, 2**63 - 1), st.binary(max_size=3))
def test_a_number_is_read_up_to_its_end(number: int, rest: bytes) -> None:
    written = varint(number)
    assert read_varint(written + rest, 0) == (number, len(written))


@pytest.mark.parametrize("broken", [b"", b"\x80", b"\xff" * 11], ids=["none", "cut", "endless"])
def test_a_broken_number_is_refused(broken: bytes) -> None:
    with pytest.raises(IndexError):
        read_varint(broken, 0)
