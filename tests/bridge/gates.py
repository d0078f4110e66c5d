"""An environment whose steps wait until the test lets them through."""

from __future__ import annotations

import threading
from typing import Any

from openenv_grpc.engine import EnvironmentDefinition
from openenv_grpc.environment import Environment
from openenv_grpc.types import Action, Observation, State


class GateAction(Action):
    wait: bool = False
    text: str = ""
    limit: int = 0


class GateObservation(Observation):
    text: str = ""
    timeout_s: float | None = None


class Gate:
    """What the test and the environments of one server share."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.open = threading.Event()
        self.closed = threading.Event()
        self.built = 0

    def definition(self, *, max_sessions: int = 4, **fields: Any) -> EnvironmentDefinition:
        """Returns an environment that waits at this gate."""
        gate = self

        class GateEnv(Environment[GateAction, GateObservation, State]):
            SUPPORTS_CONCURRENT_SESSIONS = True

            def __init__(self) -> None:
                super().__init__()
                gate.built += 1

            def reset(
                self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any
            ) -> GateObservation:
                return GateObservation(text="ready")

            def step(self, action: GateAction, timeout_s: float | None = None) -> GateObservation:
                if action.wait:
                    gate.entered.set()
                    gate.open.wait(10)
                if action.limit:
                    return GateObservation(done=True, truncated=True)
                return GateObservation(text=action.text, timeout_s=timeout_s)

            def close(self) -> None:
                gate.closed.set()

        return EnvironmentDefinition(
            factory=GateEnv,
            action_type=GateAction,
            observation_type=GateObservation,
            name=fields.pop("name", "gate"),
            max_sessions=max_sessions,
            **fields,
        )
