from __future__ import annotations

import json
from typing import Any

import pytest

from openenv_bridge import ws_messages
from openenv_bridge.ws_messages import (
    JSON_CODEC,
    CloseFrame,
    Refusal,
    ResetFrame,
    StateFrame,
    StepFrame,
    read_frame,
)
from openenv_grpc.environment_spec import EnvironmentSpec
from openenv_grpc.errors import DeadlineExceededError, UnserializableResultError
from openenv_grpc.operations import Kind, Observed, Operation, StateRead
from openenv_grpc.serialization import ActionReader
from openenv_grpc.types import Action, Observation, ServerMode, State


class Seen(Observation):
    text: str = "hi"


SPEC = EnvironmentSpec(
    name="seen",
    factory_name="SeenEnv",
    action_reader=ActionReader(Action),
    observation_type=Seen,
    reset_observation_type=Seen,
    state_type=State,
    mode=ServerMode.SIMULATION,
    concurrent_sessions=True,
    session_limit=4,
    isolation="thread",
)


def refused(text: str) -> dict[str, Any]:
    frame = read_frame(text)
    assert isinstance(frame, Refusal)
    answer: dict[str, Any] = json.loads(frame.answer)
    assert answer["type"] == "error"
    return answer


@pytest.mark.parametrize(
    ("text", "frame"),
    [
        ('{"type":"reset"}', ResetFrame(type="reset")),
        ('{"type":"reset","data":{"seed":1}}', ResetFrame(type="reset", data={"seed": 1})),
        ('{"data":{"a":1},"type":"step"}', StepFrame(type="step", data={"a": 1})),
        ('{"type":"state","request_id":7}', StateFrame(type="state", request_id=7)),
        ('{"type":"close"}', CloseFrame(type="close")),
        (
            '{"type":"step","data":{},"timeout_s":2}',
            StepFrame(type="step", data={}, timeout_s=2.0),
        ),
    ],
    ids=["reset", "reset with keywords", "step", "state", "close", "timeout"],
)
def test_a_frame_is_read(text: str, frame: object) -> None:
    assert read_frame(text) == frame


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{", "INVALID_JSON"),
        ("", "INVALID_JSON"),
        ("[" * 10_000 + "]" * 10_000, "INVALID_JSON"),
        ('{"a":' * 10_000 + "1" + "}" * 10_000, "INVALID_JSON"),
        ("[]", "VALIDATION_ERROR"),
        ("null", "VALIDATION_ERROR"),
        ("{}", "UNKNOWN_TYPE"),
        ('{"type":["step"]}', "UNKNOWN_TYPE"),
        ('{"type":"step"}', "VALIDATION_ERROR"),
        ('{"type":"step","data":[]}', "VALIDATION_ERROR"),
        ('{"type":"step","data":{},"more":1}', "VALIDATION_ERROR"),
        ('{"type":"reset","data":null}', "VALIDATION_ERROR"),
        ('{"type":"state","data":{}}', "VALIDATION_ERROR"),
        ('{"type":"step","data":{},"timeout_s":0}', "VALIDATION_ERROR"),
        ('{"type":"step","data":{},"timeout_s":"soon"}', "VALIDATION_ERROR"),
    ],
)
def test_a_malformed_frame_is_answered_with_its_code(text: str, code: str) -> None:
    assert refused(text)["data"]["code"] == code


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"bogus","request_id":"r"}',
        '{"type":"step","data":1,"request_id":"r"}',
    ],
)
def test_a_refusal_brings_the_request_id_back(text: str) -> None:
    assert refused(text)["request_id"] == "r"


def test_an_observation_has_its_metadata_beside_it_only_if_there_is_some() -> None:
    plain = ws_messages.observation_fields(Observed(observation=Seen(reward=1.0), reward=1.0))
    noted = ws_messages.observation_fields(Observed(observation=Seen(metadata={"a": 1})))
    assert plain == {
        "observation": {"metadata": {}, "text": "hi"},
        "reward": 1.0,
        "done": False,
    }
    assert noted["metadata"] == {"a": 1}


def test_an_episode_cut_short_says_so_beside_the_observation() -> None:
    result = Observed(observation=Seen(done=True, truncated=True), done=True, truncated=True)
    fields = ws_messages.observation_fields(result)
    assert fields["truncated"] is True
    assert "truncated" not in fields["observation"]


@pytest.mark.parametrize(
    ("reward", "written"),
    [(True, b"true"), (3, b"3"), (0.5, b"0.5"), (None, b"null"), (float("nan"), b"null")],
)
def test_a_reward_keeps_its_type(reward: Any, written: bytes) -> None:
    operation = Operation(kind=Kind.STEP, codec=JSON_CODEC)
    answer = JSON_CODEC.write(operation, Observed(observation=Seen(), reward=reward), SPEC)
    assert b'"reward":' + written + b"," in answer


@pytest.mark.parametrize("request_id", ["false", "true", "1.0"])
def test_a_request_id_that_would_come_back_as_another_is_refused(request_id: str) -> None:
    refusal = refused(f'{{"type":"state","request_id":{request_id}}}')
    assert refusal["data"]["message"] == "Invalid message"
    assert "request_id" not in refusal


def test_an_answer_brings_the_request_id_back() -> None:
    operation = Operation(kind=Kind.STATE, codec=JSON_CODEC, context="r1")
    answer = JSON_CODEC.write(operation, StateRead(state=None), SPEC)
    assert json.loads(answer) == {"type": "state", "data": {}, "request_id": "r1"}


def test_an_error_brings_the_request_id_back() -> None:
    operation = Operation(kind=Kind.STEP, codec=JSON_CODEC, context=7)
    answer = JSON_CODEC.write_error(operation, DeadlineExceededError("too slow"), SPEC)
    assert json.loads(answer) == {
        "type": "error",
        "data": {"message": "too slow", "code": "EXECUTION_ERROR"},
        "request_id": 7,
    }


def test_what_is_no_observation_cannot_be_written() -> None:
    operation = Operation(kind=Kind.STEP, codec=JSON_CODEC)
    with pytest.raises(UnserializableResultError, match="model_dump"):
        JSON_CODEC.write(operation, Observed(observation={"text": "x"}), SPEC)
