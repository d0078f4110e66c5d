"""Rubrics that score episodes."""

from __future__ import annotations

from typing import Any

import pytest

from openenv_grpc.rubrics import ExponentialDiscountingTrajectoryRubric, TrajectoryRubric
from openenv_grpc.types import Observation


class Length(ExponentialDiscountingTrajectoryRubric):
    def score_trajectory(self, trajectory: list[tuple[Any, Any]]) -> float:
        return float(len(trajectory))


def play(rubric: TrajectoryRubric, steps: int) -> list[float]:
    return [rubric(step, Observation(done=step == steps)) for step in range(1, steps + 1)]


def test_only_the_last_step_is_scored() -> None:
    assert play(Length(intermediate_reward=-0.1), 3) == [-0.1, -0.1, 3.0]


def test_the_steps_are_kept_until_a_reset() -> None:
    rubric = Length()
    play(rubric, 2)

    rubric.trajectory.clear()
    assert [action for action, _ in rubric.trajectory] == [1, 2]
    rubric.reset()
    assert rubric.trajectory == []


@pytest.mark.parametrize(
    ("gamma", "shares"),
    [(0.5, [0.75, 1.5, 3.0]), (1.0, [3.0, 3.0, 3.0]), (0.0, [0.0, 0.0, 3.0])],
)
def test_shares_are_discounted_from_the_end(gamma: float, shares: list[float]) -> None:
    rubric = Length(gamma)
    play(rubric, 3)

    assert rubric.compute_step_rewards() == shares


def test_an_episode_without_steps_has_no_shares() -> None:
    assert Length().compute_step_rewards() == []


@pytest.mark.parametrize("gamma", [-0.1, 1.1])
def test_a_discount_outside_of_its_range_is_refused(gamma: float) -> None:
    with pytest.raises(ValueError, match="gamma must be between 0 and 1"):
        Length(gamma)


def test_settings_survive_a_checkpoint_and_steps_do_not() -> None:
    saved, restored = Length(0.5, 0.1), Length()
    play(saved, 2)

    restored.load_state_dict(saved.state_dict())

    assert saved.state_dict() == {"intermediate_reward": 0.1, "gamma": 0.5}
    assert (restored.gamma, restored.intermediate_reward) == (0.5, 0.1)
    restored.load_state_dict({})
    assert restored.gamma == 0.5
