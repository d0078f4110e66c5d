"""An environment as it is handed in, before anything is checked or built."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from openenv_grpc.types import ServerMode, State


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentDefinition:
    """An environment as its author or a command line hands it in."""

    factory: Callable[[], Any]
    """The class, or a function that builds an instance."""
    action_type: Any
    observation_type: type[BaseModel]
    state_type: type[BaseModel] = State
    reset_observation_type: type[BaseModel] | None = None
    """Where a reset returns another class than a step."""
    name: str | None = None
    """`None` takes the factory's name."""
    max_sessions: int | None = None
    """`None` takes the settings', else `MAX_CONCURRENT_ENVS` of the process's environment, else 256
    for classes that support concurrent sessions, else 1."""
    session_timeout_s: float | None = None
    """`None` takes the settings'."""
    mode: ServerMode = ServerMode.SIMULATION
    isolation: str | None = None
    """`thread`, `process`, `shared` or `inline`; `None` takes the settings', else the class's."""
