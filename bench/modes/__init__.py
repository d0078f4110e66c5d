"""What a load can do, by name."""

from __future__ import annotations

from bench.modes.mixed import mixed
from bench.modes.opening import idle, opening
from bench.modes.rollout import rollout
from bench.modes.steps import step
from bench.modes.vector import async_vector_env, vector

MODES = {
    "async_vector_env": async_vector_env,
    "idle": idle,
    "mixed": mixed,
    "open": opening,
    "rollout": rollout,
    "step": step,
    "vector": vector,
}

__all__ = ["MODES"]
