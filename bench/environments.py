"""The environments on our classes without arrays: tiny ones, and ones that cost something."""

from __future__ import annotations

import time
from typing import ClassVar

from openenv_grpc import Action, Environment, Observation, State


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
