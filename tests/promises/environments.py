"""Environments that write down what becomes of them, for servers in processes of their own."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import ClassVar

from openenv_grpc.environment import Environment
from openenv_grpc.types import Action, Observation, State
from tests.exactly_once.counting import Counting, Token

DIARY = "OPENENV_GRPC_TEST_DIARY"
"""Variable with the file to write into."""


class Witness(Counting):
    """Writes down that it was closed."""

    def close(self) -> None:
        super().close()
        if DIARY in os.environ:
            with Path(os.environ[DIARY]).open("a", encoding="utf-8") as diary:
                diary.write(f"closed {self.tally.instance}\n")


class IsolatedWitness(Witness):
    """The same in a process of its own."""

    ISOLATION: ClassVar[str] = "process"


class Picture(Observation):
    """Something large."""

    step: int = 0
    pixels: str = ""


class Large(Environment[Token, Picture, State]):
    """Answers each step with `SIZE` characters."""

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True
    SIZE: ClassVar[int] = 10 * 2**20

    steps = 0

    def reset(self, seed: int | None = None, episode_id: str | None = None) -> Picture:
        return Picture()

    def step(self, action: Token, timeout_s: float | None = None) -> Picture:
        self.steps += 1
        return Picture(step=self.steps, pixels="x" * self.SIZE)


class Episodic(Counting):
    """Is over after `LENGTH` steps, each of which takes a moment."""

    LENGTH: ClassVar[int] = 8

    def step(self, action: Token, timeout_s: float | None = None) -> Observation:  # type: ignore[override]
        time.sleep(0.01)
        tally = super().step(action)
        tally.done = tally.steps >= self.LENGTH
        return tally


class Look(Action):
    """Asks for a picture of so many bytes."""

    size: int = 0


class Seen(Observation):
    """The picture, if one was asked for."""

    picture: bytes | None = None


class Pictures(Environment[Look, Seen, State]):
    """Answers with as many bytes as it is asked for."""

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True

    def reset(self, seed: int | None = None, episode_id: str | None = None) -> Seen:
        return Seen()

    def step(self, action: Look, timeout_s: float | None = None) -> Seen:
        return Seen(picture=bytes(action.size) if action.size else None)
