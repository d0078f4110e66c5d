"""The models that authors subclass: what they take, refuse and show."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from openenv_grpc.types import (
    Action,
    Budgets,
    ConcurrencyConfig,
    EnvironmentMetadata,
    Observation,
    ServerMode,
    State,
    StepResult,
)


class Move(Action):
    column: int


@pytest.mark.parametrize("model", [Action, Observation])
def test_actions_and_observations_refuse_unknown_fields(model: type[BaseModel]) -> None:
    with pytest.raises(ValidationError, match="extra_forbidden"):
        model(surprise=1)


def test_states_keep_unknown_fields() -> None:
    assert State(level=3).model_dump() == {"episode_id": None, "step_count": 0, "level": 3}


def test_fields_are_checked_when_they_are_assigned() -> None:
    move = Move(column=1)

    with pytest.raises(ValidationError):
        move.column = "middle"  # type: ignore[assignment]  # that is the point


def test_fields_may_be_of_any_python_type() -> None:
    class Plain:
        pass

    class Holder(Observation):
        thing: Plain

    thing = Plain()
    assert Holder(thing=thing).thing is thing


@pytest.mark.parametrize("reward", [None, True, 3, 0.5], ids=str)
def test_a_reward_keeps_its_type(reward: bool | int | float | None) -> None:
    kept = Observation(reward=reward).reward

    assert kept == reward
    assert type(kept) is type(reward)


def test_truncated_shows_neither_in_the_dump_nor_in_the_schema() -> None:
    observation = Observation(done=True, truncated=True)

    assert observation.truncated
    assert observation.model_dump() == {"done": True, "reward": None, "metadata": {}}
    assert set(Observation.model_json_schema()["properties"]) == {"done", "reward", "metadata"}


def test_a_field_of_the_authors_own_named_truncated_is_an_ordinary_field() -> None:
    class Clipped(Observation):
        truncated: bool = False

    assert Clipped(truncated=True).model_dump()["truncated"] is True
    assert "truncated" in Clipped.model_json_schema()["properties"]


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        (State, {"step_count": -1}),
        (ConcurrencyConfig, {"max_concurrent_envs": 0}),
        (ConcurrencyConfig, {"session_timeout": 0}),
        (EnvironmentMetadata, {"name": "a"}),
    ],
)
def test_values_that_make_no_sense_are_refused(
    model: type[BaseModel], fields: dict[str, Any]
) -> None:
    with pytest.raises(ValidationError):
        model(**fields)


def test_a_step_result_says_nothing_unless_told() -> None:
    result = StepResult(observation=Observation())

    assert (result.reward, result.done, result.metadata) == (None, False, None)
    assert (result.terminated, result.truncated, result.info) == (False, False, {})


def test_modes_are_their_own_names() -> None:
    assert [str(mode) for mode in ServerMode] == ["simulation", "production"]


@pytest.mark.parametrize(
    "times",
    [
        {"step_s": 0},
        {"reset_s": -1},
        {"close_s": float("inf")},
        {"step_s": float("nan")},
        {"step_s": 1, "expected_step_s": 2},
    ],
    ids=str,
)
def test_budgets_that_make_no_sense_are_refused(times: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"step|reset|close"):
        Budgets(**times)
