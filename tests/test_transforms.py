"""Transforms, alone and in a row."""

from __future__ import annotations

import pytest

from openenv_grpc.transforms import CompositeTransform, NullTransform, Transform
from openenv_grpc.types import Observation


class Append(Transform[Observation]):
    def __init__(self, mark: str) -> None:
        self.mark = mark

    def __call__(self, observation: Observation) -> Observation:
        trail = observation.metadata.get("trail", "") + self.mark
        return observation.model_copy(update={"metadata": {"trail": trail}})


def test_a_null_transform_returns_what_it_was_given() -> None:
    observation = Observation()

    assert NullTransform[Observation]()(observation) is observation


def test_a_composite_applies_its_transforms_in_order() -> None:
    both = CompositeTransform([Append("a"), Append("b"), NullTransform()])

    assert both(Observation()).metadata == {"trail": "ab"}


def test_a_transform_without_a_call_cannot_be_made() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Transform()  # type: ignore[abstract]  # that is the point
