from __future__ import annotations

import numpy as np
from gymnasium import spaces
from pydantic import Field

from openenv_grpc import Action
from openenv_grpc.gymnasium.schemas import fields_of
from tests.gymnasium.environments import Steer, View


class Inner(Action):
    count: int = Field(gt=0, lt=5)


class Outer(Action):
    inner: Inner
    any_integer: int
    part: float = Field(ge=0, le=1)
    name: str = Field(max_length=8)
    rows: list[list[int]]


def test_fields_become_spaces() -> None:
    schema = View.model_json_schema()
    forms, left_out = fields_of(schema, schema)
    assert {name: form.space for name, form in forms.items()} == {
        "pixels": spaces.Box(0, 255, (4, 4, 3), np.uint8),
        "visible": spaces.MultiBinary((2,)),
        "heading": spaces.Discrete(3, start=-1),
        "speed": spaces.Box(-np.inf, np.inf, (), np.float64),
        "weights": spaces.Box(-np.inf, np.inf, (2,), np.float64),
        "landed": spaces.Discrete(2),
    }
    assert left_out == ["hint"]


def test_models_within_models_become_dicts() -> None:
    schema = Outer.model_json_schema()
    forms, left_out = fields_of(schema, schema)
    assert forms["inner"].space == spaces.Dict({"count": spaces.Discrete(4, start=1)})
    assert forms["part"].space == spaces.Box(0, 1, (), np.float64)
    assert forms["any_integer"].space.dtype == np.int64
    assert isinstance(forms["name"].space, spaces.Text)
    assert left_out == ["rows"]


def test_a_sample_of_each_space_makes_an_action_that_fits() -> None:
    schema = Steer.model_json_schema()
    forms, _ = fields_of(schema, schema)
    for _ in range(10):
        fields = {name: form.encode(form.space.sample()) for name, form in forms.items()}
        assert Steer(**fields).turn in ("left", "right", "none")
