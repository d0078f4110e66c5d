"""The codecs of the gRPC doors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from openenv_grpc.environment_spec import EnvironmentSpec
from openenv_grpc.errors import (
    InternalError,
    InvalidActionError,
    InvalidRequestError,
    UnserializableResultError,
)
from openenv_grpc.operations import (
    Closed,
    Evaluated,
    Kind,
    Observed,
    Opened,
    Operation,
    StateRead,
    ToolCall,
    ToolsListed,
)
from openenv_grpc.serialization import ActionReader
from openenv_grpc.tools import ToolAnswer, ToolInfo
from openenv_grpc.types import Observation, ServerMode, State
from openenv_grpc.v1 import episode_pb2, payload_pb2, session_pb2
from openenv_grpc.wire.operations import ConnectCodec, UnaryCodec
from openenv_grpc.wire.payloads import decode_payload
from tests.environments import Count, Counted

CONNECT, UNARY = ConnectCodec(), UnaryCodec()
SPEC = EnvironmentSpec(
    name="countdown",
    factory_name="Countdown",
    action_reader=ActionReader(Count),
    observation_type=Counted,
    reset_observation_type=Counted,
    state_type=State,
    mode=ServerMode.SIMULATION,
    concurrent_sessions=True,
    session_limit=1,
    isolation="thread",
)


def operation(payload: Any, kind: Kind = Kind.STEP, request_id: int = 7) -> Operation:
    return Operation(kind=kind, codec=CONNECT, payload=payload, request_id=request_id)


def written(result: Any, payload: Any = None, kind: Kind = Kind.STEP) -> session_pb2.Outcome:
    asked = operation(session_pb2.Step() if payload is None else payload, kind)
    return session_pb2.Outcome.FromString(CONNECT.write(asked, result, SPEC))


def resetting(**fields: Any) -> Operation:
    return operation(session_pb2.ResetEpisode(**fields), Kind.RESET)


@given(seed=st.none() | st.integers(-(2**63), 2**63 - 1), episode_id=st.text(max_size=255))
def test_seed_and_name_of_an_episode_are_read_if_they_were_sent(
    seed: int | None, episode_id: str
) -> None:
    read = CONNECT.read_reset(resetting(seed=seed, episode_id=episode_id), SPEC)
    assert read.keywords.get("seed") == seed
    assert ("seed" in read.keywords) == (seed is not None)
    assert read.keywords.get("episode_id", "") == episode_id
    assert read.strict


def test_options_of_a_reset_stand_beside_seed_and_name() -> None:
    options = payload_pb2.Payload(json='{"level":3}')
    read = CONNECT.read_reset(resetting(seed=0, options=options), SPEC)
    assert read.keywords == {"level": 3, "seed": 0}


@pytest.mark.parametrize("json", ["[]", "null", "3", '"x"', "{", ""])
def test_options_that_are_no_object_are_refused(json: str) -> None:
    options = payload_pb2.Payload(json=json)
    with pytest.raises(InvalidRequestError):
        CONNECT.read_reset(resetting(options=options), SPEC)
    with pytest.raises(InvalidRequestError):
        CONNECT.read_step(operation(session_pb2.Step(action={"json": "{}"}, options=options)), SPEC)


def test_a_step_is_read_with_its_keywords() -> None:
    step = session_pb2.Step(action={"json": '{"by":2}'}, options={"json": '{"hint":"x"}'})
    read = CONNECT.read_step(operation(step), SPEC)
    assert read.action == Count(by=2)
    assert (read.keywords, read.strict) == ({"hint": "x"}, True)
    with pytest.raises(InvalidActionError):
        CONNECT.read_step(operation(session_pb2.Step(action={"json": '{"by":"x"}'})), SPEC)


@pytest.mark.parametrize("reward", [None, 0, 0.0, True, False, 3, -1.5, math.inf, math.nan])
def test_no_verdict_is_not_zero_and_nan_travels_as_nan(reward: float | None) -> None:
    step = written(Observed(observation=Counted(), reward=reward)).step
    assert step.HasField("reward") == (reward is not None)
    if reward is not None:
        assert step.reward == float(reward) or math.isnan(reward)


@pytest.mark.parametrize(
    ("done", "truncated", "expected"),
    [(False, False, (False, False)), (True, False, (True, False)), (True, True, (False, True))],
)
def test_what_was_cut_short_has_not_ended_by_the_rules(
    done: bool, truncated: bool, expected: tuple[bool, bool]
) -> None:
    result = Observed(observation=Counted(), done=done, truncated=truncated)
    for message in (
        written(result).step,
        written(result, session_pb2.ResetEpisode(), Kind.RESET).reset_episode,
    ):
        assert (message.terminated, message.truncated) == expected


def test_reward_and_end_travel_beside_the_observation() -> None:
    observation = Counted(left=2, reward=1.0, done=True, metadata={"k": 1})
    outcome = written(Observed(observation=observation, reward=1.0, rewards={"part": 0.5}))
    assert decode_payload(outcome.step.observation) == {
        "left": 2, "text": "", "metadata": {"k": 1},
    }  # fmt: skip
    assert dict(outcome.step.rewards) == {"part": 0.5}
    assert (outcome.request_id, outcome.session) == (7, 0)


def test_an_observation_with_an_array_has_it_attached() -> None:
    class Seen(Observation):
        frame: Any = None

    outcome = written(Observed(observation=Seen(frame=np.eye(2, dtype=np.float32))))
    assert '"frame":null' in outcome.step.observation.json
    assert np.array_equal(decode_payload(outcome.step.observation)["frame"], np.eye(2))


def test_results_that_are_all_defaults_are_set_all_the_same() -> None:
    assert written(Evaluated(), session_pb2.Evaluate()).WhichOneof("kind") == "evaluate"
    assert written(Closed(step_count=0), session_pb2.Close()).WhichOneof("kind") == "close"
    state = written(StateRead(state=None), session_pb2.GetState())
    assert state.get_state.state.json == "{}"


def test_tools_and_their_answers_are_outcomes_of_a_stream_too() -> None:
    listed = written(ToolsListed(tools=[]), session_pb2.ListTools())
    assert listed.WhichOneof("kind") == "list_tools"
    listed = written(ToolsListed(tools=[ToolInfo(name="add")]), session_pb2.ListTools())
    assert [tool.name for tool in listed.list_tools.tools] == ["add"]
    answer = ToolAnswer(content=[{"type": "text", "text": "3"}], data=3, reward=1.0)
    called = written(answer, session_pb2.CallTool())
    assert called.call_tool.result.contents[0].text == "3"
    assert not called.call_tool.result.failed


def test_a_call_of_a_tool_is_read_from_a_stream() -> None:
    message = session_pb2.CallTool(tool_name="add", arguments={"json": '{"a":1}'})
    read = CONNECT.read_tool_call(operation(message), SPEC)
    assert read == ToolCall(name="add", arguments={"a": 1})
    with pytest.raises(InvalidRequestError, match="names no tool"):
        CONNECT.read_tool_call(operation(session_pb2.CallTool()), SPEC)


def test_a_state_is_a_model_or_a_dictionary() -> None:
    model = StateRead(state=State(episode_id="e", step_count=2), episode_id="e", step_count=2)
    plain = StateRead(state={"raw": b"x"}, episode_id=None)
    read = written(model, session_pb2.GetState()).get_state
    assert decode_payload(read.state) == {"episode_id": "e", "step_count": 2}
    assert (read.episode_id, read.step_count) == ("e", 2)
    assert decode_payload(written(plain, session_pb2.GetState()).get_state.state) == {"raw": b"x"}


@pytest.mark.parametrize("kind", ["object", "cycle", "deep", "surrogate"])
def test_an_observation_that_cannot_be_written_is_refused(kind: str) -> None:
    class Loose(Observation):
        value: Any = None

    cycle: dict[str, Any] = {}
    cycle["me"] = cycle
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    value = {"object": object(), "cycle": cycle, "deep": deep, "surrogate": "\ud800"}[kind]
    with pytest.raises(UnserializableResultError):
        CONNECT.write(operation(session_pb2.Step()), Observed(observation=Loose(value=value)), SPEC)


def test_a_stream_has_no_outcome_for_what_it_did_not_ask() -> None:
    with pytest.raises(InternalError):
        CONNECT.write(operation(session_pb2.Step()), {"tasks": 1}, SPEC)
    with pytest.raises(InternalError):
        UNARY.write(operation(episode_pb2.StepRequest()), {"tasks": 1}, SPEC)


@pytest.mark.parametrize(
    ("request_", "result", "response"),
    [
        (
            episode_pb2.OpenRequest(),
            Opened(session_id="s", environment="e"),
            episode_pb2.OpenResponse(session_id="s", environment="e"),
        ),
        (
            episode_pb2.StepRequest(),
            Observed(observation=Counted(left=1), reward=1, rewards={"a": 2.0}, done=True),
            episode_pb2.StepResponse(
                observation={"json": '{"metadata":{},"left":1,"text":""}'},
                reward=1.0,
                terminated=True,
                rewards={"a": 2.0},
            ),
        ),
        (
            episode_pb2.ResetRequest(),
            Observed(observation=Counted(), episode_id="e"),
            episode_pb2.ResetResponse(
                observation={"json": '{"metadata":{},"left":0,"text":""}'}, episode_id="e"
            ),
        ),
        (
            episode_pb2.GetStateRequest(),
            StateRead(state={}, step_count=4),
            episode_pb2.GetStateResponse(state={"json": "{}"}, step_count=4),
        ),
        (
            episode_pb2.EvaluateRequest(),
            Evaluated(reward=0.0, done=True, truncated=True),
            episode_pb2.EvaluateResponse(reward=0.0, truncated=True),
        ),
        (
            episode_pb2.CloseRequest(),
            Closed(step_count=3),
            episode_pb2.CloseResponse(step_count=3),
        ),
    ],
    ids=["open", "step", "reset", "get_state", "evaluate", "close"],
)
def test_unary_responses_have_the_results(request_: Any, result: Any, response: Any) -> None:
    kind = Kind.RESET if isinstance(request_, episode_pb2.ResetRequest) else Kind.STEP
    content = UNARY.write(operation(request_, kind), result, SPEC)
    assert type(response).FromString(content) == response


def test_a_nested_model_is_written_as_its_fields() -> None:
    class Inner(BaseModel):
        n: int

    class Outer(Observation):
        inner: Inner

    outcome = written(Observed(observation=Outer(inner=Inner(n=1))))
    assert decode_payload(outcome.step.observation)["inner"] == {"n": 1}
