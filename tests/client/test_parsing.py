from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel, Field, RootModel

from openenv_grpc.client import EnvClient
from openenv_grpc.client.parsing import ObservationReader, action_payload
from openenv_grpc.errors import InvalidRequestError
from openenv_grpc.types import Action, Observation, State


class Move(Action):
    to: str


class Board(Observation):
    cells: list[int] = Field(default_factory=list)


class Menu(Observation):
    choices: list[str]


@dataclass
class Plain:
    to: str


class Bare(BaseModel):
    cells: list[int]


def test_classes_come_from_the_generic_base() -> None:
    class Client(EnvClient[Move, Board | Menu, State]):
        pass

    assert (Client.action_type, Client.observation_type, Client.state_type) == (
        Move,
        Board | Menu,
        State,
    )


def test_classes_that_a_subclass_names_go_first_and_are_inherited() -> None:
    class Client(EnvClient[Move, Board, State]):
        observation_type = Menu

    class Narrower(Client):
        pass

    assert Narrower.observation_type is Menu
    assert Narrower.state_type is State


@pytest.mark.parametrize("action", [{"to": "a"}, Plain(to="a")], ids=["mapping", "dataclass"])
def test_actions_are_taken_apart(action: object) -> None:
    assert action_payload(action) == {"to": "a"}


def test_a_model_is_dumped() -> None:
    assert action_payload(Move(to="a")) == {"to": "a", "metadata": {}}


def test_a_plain_value_is_no_action() -> None:
    with pytest.raises(InvalidRequestError):
        action_payload(3)


PAYLOAD: dict[str, Any] = {
    "observation": {"cells": [1], "metadata": {}},
    "reward": 2.0,
    "done": True,
    "truncated": True,
}


def test_what_travels_beside_an_observation_is_put_back() -> None:
    seen = ObservationReader(Board).read(PAYLOAD)
    assert seen == Board(cells=[1], reward=2.0, done=True, truncated=True)


def test_a_model_without_such_fields_does_not_get_them() -> None:
    payload = {"observation": {"cells": [1]}, "reward": 2.0, "done": True}
    assert ObservationReader(Bare).read(payload) == Bare(cells=[1])


@pytest.mark.parametrize("union", [Board | Menu, RootModel[Board | Menu]], ids=["union", "root"])
def test_one_of_several_classes_is_found_by_its_fields(union: Any) -> None:
    payload = {"observation": {"choices": ["a"]}, "reward": 1.0, "done": False}
    seen = ObservationReader(union).read(payload)
    found = seen.root if isinstance(seen, RootModel) else seen
    assert found == Menu(choices=["a"], reward=1.0)
