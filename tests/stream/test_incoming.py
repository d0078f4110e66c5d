"""What a client asks for, made an operation: its content, and what tells it from another."""

from __future__ import annotations

import pytest

from openenv_grpc.operations import Kind
from openenv_grpc.stream.incoming import read_operation
from openenv_grpc.v1 import payload_pb2, session_pb2, tensor_pb2

TEXT = '{"message":"hello"}'
LONG = '{"message":"' + "m" * 300 + '"}'


def step(text: str = TEXT, *, number: int = 1, **fields: object) -> session_pb2.Operation:
    operation = session_pb2.Operation(request_id=number)
    operation.step.MergeFrom(session_pb2.Step(action={"json": text}, **fields))  # type: ignore[arg-type]
    return operation


def with_attachment() -> session_pb2.Operation:
    operation = step()
    tensor = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_RAW, shape=[1], data=b"x")
    operation.step.action.attachments.append(payload_pb2.Attachment(pointer="/a", tensor=tensor))
    return operation


def typed() -> session_pb2.Operation:
    operation = session_pb2.Operation(request_id=1)
    operation.step.action.typed.type_url = TEXT
    return operation


def test_a_step_of_json_alone_is_its_text() -> None:
    operation = read_operation(step(), "step")
    assert (operation.kind, operation.payload) == (Kind.STEP, TEXT)


@pytest.mark.parametrize(
    "message",
    [step(options={"json": "{}"}), with_attachment(), typed(), step("")],
    ids=["options", "attachment", "typed", "nothing"],
)
def test_any_other_step_stays_a_message(message: session_pb2.Operation) -> None:
    assert read_operation(message, "step").payload == message.step


def test_contents_that_differ_are_told_apart() -> None:
    asked = [
        ("step", step()),
        ("step", step(TEXT + " ")),
        ("step", step(options={"json": "{}"})),
        ("step", with_attachment()),
        ("step", typed()),
        ("step", step("")),
        ("step", step(LONG)),
        ("step", step(LONG + " ")),
        ("reset_episode", session_pb2.Operation(request_id=1, reset_episode={"episode_id": TEXT})),
        ("get_state", session_pb2.Operation(request_id=1, get_state={})),
    ]
    digests = {read_operation(message, arm).digest for arm, message in asked}
    assert len(digests) == len(asked)


@pytest.mark.parametrize("text", [TEXT, LONG], ids=["short", "long"])
def test_the_same_content_is_known_again(text: str) -> None:
    first, again = (read_operation(step(text), "step").digest for _ in range(2))
    assert first == again
    assert len(first) < 300  # that of a long one is kept, not the content
