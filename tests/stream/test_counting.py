from __future__ import annotations

import pytest

from openenv_grpc.errors import MessageTooLargeError
from openenv_grpc.stream.counting import check_count
from openenv_grpc.v1 import session_pb2
from tests.stream.pipe import stepping


def message(count: int) -> bytes:
    request = session_pb2.ConnectRequest(operations=[stepping(1)] * count)
    request.client.name = "x" * 300
    return request.SerializeToString()


def test_a_message_may_have_as_many_operations_as_the_limit_says_and_no_more() -> None:
    check_count(message(5), 5)
    with pytest.raises(MessageTooLargeError, match="more than 5 operations"):
        check_count(message(6), 5)


def test_operations_without_content_count() -> None:
    check_count(b"\x12\x00" * 1000, 1000)
    with pytest.raises(MessageTooLargeError):
        check_count(b"\x12\x00" * 1001, 1000)


def test_fields_of_later_versions_do_not_count() -> None:
    unknown = (
        b"\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"  # 3, a number
        b"\x21" + bytes(8) + b"\x2a\x80\x01" + bytes(128) + b"\x35" + bytes(4)
    )
    check_count(unknown * 9 + b"\x12\x00", 1)
    with pytest.raises(MessageTooLargeError):
        check_count(unknown * 9 + b"\x12\x00\x12\x00", 1)


@pytest.mark.parametrize(
    "content",
    [b"\x12", b"\x12\xff", b"\x80" * 99, b"\x13\x00\x00", b"\x12\x7f\x00"],
    ids=["no length", "half a length", "endless", "a group", "half an operation"],
)
def test_what_is_no_message_is_left_to_the_parser(content: bytes) -> None:
    check_count(content, 0)
