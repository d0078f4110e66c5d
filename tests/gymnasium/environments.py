"""Environments for Gymnasium's side: one of ours, and one of Gymnasium with every kind of space."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from pydantic import Field

from openenv_grpc import Action, Array, Environment, Observation, State
from openenv_grpc.definition import EnvironmentDefinition


class Steer(Action):
    turn: Literal["left", "right", "none"]
    thrust: Annotated[NDArray[np.float32], Array((2,))]
    note: str | None = None


class View(Observation):
    pixels: Annotated[NDArray[np.uint8], Array((4, 4, 3))]
    visible: Annotated[NDArray[np.bool_], Array((2,))]
    heading: int = Field(ge=-1, le=1)
    speed: float
    weights: list[float] = Field(min_length=2, max_length=2)
    landed: bool = False
    hint: str | None = None


class Ship(Environment[Steer, View, State]):
    """Draws what its seed says, and keeps what it was told."""

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True

    def reset(self, seed: int | None = None, episode_id: str | None = None) -> View:
        self.heading, self.speed = 0, 0.0
        return self.view()

    def step(self, action: Steer, timeout_s: float | None = None) -> View:
        self.heading = {"left": -1, "right": 1, "none": 0}[action.turn]
        self.speed += float(abs(action.thrust).sum())
        view = self.view()
        view.done = view.landed = self.speed > 1e6
        return view

    def view(self) -> View:
        pixels = np.frombuffer(self.rng.randbytes(48), np.uint8).reshape(4, 4, 3)
        return View(
            pixels=pixels,
            visible=np.array([True, False]),
            heading=self.heading,
            speed=self.speed,
            weights=[self.rng.random(), 0.5],
        )


SHIP = EnvironmentDefinition(factory=Ship, action_type=Steer, observation_type=View)

EVERYTHING = spaces.Dict(
    {
        "box": spaces.Box(np.float32([-1, -np.inf]), np.float32([1, np.inf]), (2,), np.float32),
        "frame": spaces.Box(0, 255, (2, 3), np.uint8),
        "number": spaces.Box(-2.5, 2.5, (), np.float64),
        "choice": spaces.Discrete(3, start=-1),
        "choices": spaces.MultiDiscrete([2, 5]),
        "bits": spaces.MultiBinary((2, 2)),
        "text": spaces.Text(5, min_length=1, charset="abc"),
        "pair": spaces.Tuple([spaces.Discrete(2), spaces.Box(0, 1, (1,), np.float32)]),
        "inner part": spaces.Dict({"x": spaces.Discrete(4)}),
    }
)


class Mirror(gymnasium.Env[Any, Any]):
    """Shows the action that it was given."""

    action_space = EVERYTHING
    observation_space = EVERYTHING

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {"options": options, "object": object()}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert action in self.action_space
        return action, 1.5, False, True, {"array": np.arange(3)}


class Odd(Mirror):
    action_space = spaces.Sequence(spaces.Discrete(2))  # type: ignore[assignment]


gymnasium.register("tests/Mirror-v0", Mirror)
gymnasium.register("tests/Odd-v0", Odd)
