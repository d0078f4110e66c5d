"""The environments on our classes: tiny ones, ones that cost something, and ones with arrays."""

from __future__ import annotations

import time
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from openenv_grpc import Action, Array, Environment, Observation, State


class TinyAction(Action):
    message: str


class TinyObservation(Observation):
    text: str = ""


class Tiny(Environment[TinyAction, TinyObservation, State]):
    """Runs on a thread of its own."""

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True

    def reset(self, seed: int | None = None, episode_id: str | None = None) -> TinyObservation:
        return TinyObservation(text="ready")

    def step(self, action: TinyAction, timeout_s: float | None = None) -> TinyObservation:
        return TinyObservation(text=action.message, reward=1.0)


class SharedTiny(Tiny):
    """Shares a thread with the other sessions of its connection."""

    ISOLATION: ClassVar[str] = "shared"


class InlineTiny(Tiny):
    """Runs on the server's event loop."""

    ISOLATION: ClassVar[str] = "inline"


class Sized(Tiny):
    """Shows a text as long as the action says, in bytes."""

    def __init__(self) -> None:
        self._text = ""

    def step(self, action: TinyAction, timeout_s: float | None = None) -> TinyObservation:
        size = int(action.message)
        if len(self._text) != size:
            self._text = "t" * size
        return TinyObservation(text=self._text, reward=1.0)


class Costly(Tiny):
    """Computes and sleeps for so long in every step."""

    WORK_S: ClassVar[float] = 0.0
    SLEEP_S: ClassVar[float] = 0.0

    def step(self, action: TinyAction, timeout_s: float | None = None) -> TinyObservation:
        if self.WORK_S:
            work(self.WORK_S)
        if self.SLEEP_S:
            time.sleep(self.SLEEP_S)
        return TinyObservation(text=action.message, reward=1.0)


class Works200us(Costly):
    WORK_S: ClassVar[float] = 0.0002


class Works5ms(Costly):
    WORK_S: ClassVar[float] = 0.005


class Sleeps1ms(Costly):
    SLEEP_S: ClassVar[float] = 0.001


class Mixed(Tiny):
    """Computes for 20 ms if it is told to burn."""

    def step(self, action: TinyAction, timeout_s: float | None = None) -> TinyObservation:
        if action.message == "burn":
            work(0.02)
        return TinyObservation(text=action.message, reward=1.0)


def work(seconds: float) -> None:
    """Computes in Python for so long of the thread's own time."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(100))


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
