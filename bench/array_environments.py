"""The environments on our classes with arrays, apart from those that need no numpy."""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from bench.environments import TinyAction
from openenv_grpc import Action, Array, Environment, Observation, State


class ArrayAction(Action):
    values: Annotated[NDArray[np.float32], Array((4,))]


class ArrayObservation(Observation):
    values: Annotated[NDArray[np.float32], Array((16,))]


class SharedArrays(Environment[ArrayAction, ArrayObservation, State]):
    """A step of four numbers, which shows sixteen. Shares a thread with its connection."""

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True
    ISOLATION: ClassVar[str] = "shared"

    def __init__(self) -> None:
        self._values = np.zeros(16, np.float32)

    def reset(self, seed: int | None = None, episode_id: str | None = None) -> ArrayObservation:
        return ArrayObservation(values=self._values)

    def step(self, action: ArrayAction, timeout_s: float | None = None) -> ArrayObservation:
        self._values[:4] = action.values
        return ArrayObservation(values=self._values, reward=1.0)


class FrameObservation(Observation):
    pixels: Annotated[NDArray[np.uint8], Array()]


class Frame(Environment[TinyAction, FrameObservation, State]):
    """Shows a frame of 84 x 84 x 4 bytes, a quarter of which changes with each step."""

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True
    SHAPE: ClassVar[tuple[int, ...]] = (84, 84, 4)

    def __init__(self) -> None:
        self._pixels = np.zeros(self.SHAPE, np.uint8)
        self._noise = np.random.default_rng(0).integers(0, 256, self.SHAPE, np.uint8)
        self._steps = 0

    def reset(self, seed: int | None = None, episode_id: str | None = None) -> FrameObservation:
        return FrameObservation(pixels=self._pixels)

    def step(self, action: TinyAction, timeout_s: float | None = None) -> FrameObservation:
        self._steps += 1
        part = len(self._noise) // 4
        self._pixels[:part] = self._noise[:part] ^ (self._steps & 0xFF)
        return FrameObservation(pixels=self._pixels, reward=1.0)


class Megabyte(Frame):
    """The same of 1 MiB."""

    SHAPE: ClassVar[tuple[int, ...]] = (512, 512, 4)
