"""An environment whose observations are large arrays, and so may its actions be."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from openenv_grpc.arrays import Array
from openenv_grpc.engine import EnvironmentDefinition
from openenv_grpc.environment import Environment
from openenv_grpc.types import Action, Observation, State


class Ask(Action):
    """Asks for a frame of so many bytes, that starts with a number; sends one along."""

    size: int = 0
    first: int = 0
    sent: Annotated[NDArray[np.uint8], Array((None,))] | None = None


class Frame(Observation):
    frame: Annotated[NDArray[np.uint8], Array((None,))]
    received: int = 0
    """The sum of what was sent."""
    steps: int = 0


def frame(first: int, size: int) -> NDArray[Any]:
    """What the environment shows."""
    return (np.arange(first, first + size) % 251).astype(np.uint8)


class Frames(Environment[Ask, Frame, State]):
    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0

    def reset(self, seed: int | None = None, episode_id: str | None = None) -> Frame:
        return Frame(frame=frame(0, seed or 0))

    def step(self, action: Ask, timeout_s: float | None = None) -> Frame:
        self.steps += 1
        received = 0 if action.sent is None else int(action.sent.sum(dtype=np.int64))
        return Frame(frame=frame(action.first, action.size), received=received, steps=self.steps)


FRAMES = EnvironmentDefinition(factory=Frames, action_type=Ask, observation_type=Frame)
