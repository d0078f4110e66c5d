"""The tiny environment on our classes: one short field in, one out, nothing else done."""

from __future__ import annotations

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
