"""What changes an observation on its way from an environment to an agent."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

ObsT = TypeVar("ObsT")


class Transform(ABC, Generic[ObsT]):
    """A callable from observation to observation: it adds a reward, masks a field, and so on."""

    @abstractmethod
    def __call__(self, observation: ObsT) -> ObsT:
        """Returns the observation that the agent is to see."""


class CompositeTransform(Transform[ObsT]):
    """Several transforms, one after the other."""

    def __init__(self, transforms: Sequence[Transform[ObsT]]) -> None:
        self.transforms = list(transforms)

    def __call__(self, observation: ObsT) -> ObsT:
        """Applies each transform to the result of the one before it."""
        for transform in self.transforms:
            observation = transform(observation)
        return observation


class NullTransform(Transform[ObsT]):
    """Changes nothing."""

    def __call__(self, observation: ObsT) -> ObsT:
        """Returns what it was given."""
        return observation
