"""The environment with arrays on Gymnasium's classes."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float32]


class ArrayEnvironment(gymnasium.Env[Values, Values]):
    """A step of four numbers, which shows sixteen."""

    def __init__(self) -> None:
        self.action_space = gymnasium.spaces.Box(-1, 1, (4,), np.float32)
        self.observation_space = gymnasium.spaces.Box(-1, 1, (16,), np.float32)
        self._values = np.zeros(16, np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Values, dict[str, Any]]:
        super().reset(seed=seed)
        return self._values, {}

    def step(self, action: Values) -> tuple[Values, float, bool, bool, dict[str, Any]]:
        self._values[:4] = action
        return self._values, 1.0, False, False, {}
