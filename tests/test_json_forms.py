"""Actions and observations by the helpers that ported environments call."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import Field, ValidationError

from openenv_grpc.json_forms import (
    deserialize_action,
    deserialize_action_with_preprocessing,
    serialize_observation,
)
from openenv_grpc.tools import CallToolAction, ListToolsAction
from openenv_grpc.types import Action, Observation


class Move(Action):
    action_id: int = 0
    tokens: Any = None
    arguments: dict[str, Any] = Field(default_factory=dict)


class Board(Observation):
    cells: list[int]


def test_an_observation_has_reward_and_done_beside_it() -> None:
    assert serialize_observation(Board(cells=[1], reward=2, done=True, truncated=True)) == {
        "observation": {"metadata": {}, "cells": [1]},
        "reward": 2,
        "done": True,
    }


def test_metadata_stand_beside_the_observation_too_unless_empty() -> None:
    serialized = serialize_observation(Board(cells=[], metadata={"a": 1}))

    assert serialized["metadata"] == serialized["observation"]["metadata"] == {"a": 1}


def test_an_action_is_made_of_its_fields() -> None:
    assert deserialize_action({"action_id": "3"}, Move) == Move(action_id=3)


def test_an_action_that_does_not_fit_is_pydantics_error() -> None:
    with pytest.raises(ValidationError, match="action_id"):
        deserialize_action({"action_id": "x"}, Move)


@pytest.mark.parametrize("declared", [Action, CallToolAction, ListToolsAction])
def test_the_type_selects_a_tool_action(declared: type[Action]) -> None:
    listed = deserialize_action({"type": "list_tools"}, declared)
    called = deserialize_action({"type": "call_tool", "tool_name": "add"}, declared)

    assert listed == ListToolsAction()
    assert called == CallToolAction(tool_name="add")


def test_the_type_selects_nothing_for_other_actions() -> None:
    with pytest.raises(ValidationError, match="type"):
        deserialize_action({"type": "list_tools"}, Move)


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ({"action_id": "4"}, Move(action_id=4)),
        ({"arguments": '{"a": 1}'}, Move(arguments={"a": 1})),
        ({"arguments": " "}, Move()),
        ({"tokens": "[1, 2]"}, Move(tokens=[1, 2])),
        ({"tokens": "not json"}, Move(tokens="not json")),
        ({"tokens": ""}, Move(tokens=[])),
    ],
    ids=["number", "arguments", "blank arguments", "tokens", "odd tokens", "blank tokens"],
)
def test_text_of_a_form_becomes_what_the_action_needs(
    typed: dict[str, Any], expected: Move
) -> None:
    assert deserialize_action_with_preprocessing(typed, Move) == expected


@pytest.mark.parametrize("typed", [{"action_id": "x"}, {"arguments": "{"}], ids=["number", "json"])
def test_text_that_cannot_be_converted_is_left_to_the_action(typed: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        deserialize_action_with_preprocessing(typed, Move)
