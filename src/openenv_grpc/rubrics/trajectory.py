"""Rubrics that score an episode as a whole, and give each step its share."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from openenv_grpc.rubrics.rubric import Rubric

Trajectory = list[tuple[Any, Any]]
"""Actions and what they led to, in order."""


class TrajectoryRubric(Rubric):
    """Collects the steps of an episode and scores them at its end.

    Until an observation is `done`, the score is `intermediate_reward`.
    """

    def __init__(self, intermediate_reward: float = 0.0) -> None:
        self.intermediate_reward = intermediate_reward
        self._trajectory: Trajectory = []

    def forward(self, action: Any, observation: Any) -> Any:
        """Adds a step; scores the episode if that was its last."""
        self._trajectory.append((action, observation))
        if observation.done:
            return self.score_trajectory(self._trajectory)
        return self.intermediate_reward

    @abstractmethod
    def score_trajectory(self, trajectory: Trajectory) -> float:
        """Returns the score of an episode."""

    @abstractmethod
    def compute_step_rewards(self) -> list[float]:
        """Returns the share of each step of the episode so far."""

    def reset(self) -> None:
        """Forgets the steps."""
        self._trajectory = []

    @property
    def trajectory(self) -> Trajectory:
        """The steps so far, as a copy."""
        return list(self._trajectory)

    def state_dict(self) -> dict[str, Any]:
        """Returns the settings, without the steps."""
        return {"intermediate_reward": self.intermediate_reward}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes the settings that are there."""
        self.intermediate_reward = state.get("intermediate_reward", self.intermediate_reward)


class ExponentialDiscountingTrajectoryRubric(TrajectoryRubric):
    """Gives the step that is `n` steps before the last `gamma ** n` times the episode's score."""

    def __init__(self, gamma: float = 0.99, intermediate_reward: float = 0.0) -> None:
        if not 0.0 <= gamma <= 1.0:
            raise ValueError(f"gamma must be between 0 and 1, not {gamma}")
        super().__init__(intermediate_reward)
        self.gamma = gamma

    def compute_step_rewards(self) -> list[float]:
        """Returns the discounted share of each step of the episode so far."""
        if not self._trajectory:
            return []
        final = self.score_trajectory(self._trajectory)
        last = len(self._trajectory) - 1
        return [final * self.gamma ** (last - step) for step in range(last + 1)]

    def state_dict(self) -> dict[str, Any]:
        """Returns the settings, without the steps."""
        return {**super().state_dict(), "gamma": self.gamma}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes the settings that are there."""
        super().load_state_dict(state)
        self.gamma = state.get("gamma", self.gamma)
