"""What can be told of an environment's instance only, and what it is handed."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from openenv_grpc.engine.adapt.classes import Shape
from openenv_grpc.environment import EpisodeBooks, EpisodeRandom
from openenv_grpc.mcp_environment import MCPEnvironment
from openenv_grpc.operations import StateRead
from openenv_grpc.own_loop import run_apart
from openenv_grpc.tools import Library, Offers
from openenv_grpc.types import Observation, State

REFERENCE_MCP_MODULE = "openenv.core.env_server.mcp_environment"


class ToolPath(enum.Enum):
    """Who is asked for tools."""

    OWN = "own"
    """Our `MCPEnvironment`, on the session's thread."""
    CLIENT = "client"
    """The reference's `mcp_client`, on the event loop."""
    SERVER = "server"
    """An `mcp_server` without a client, on the event loop."""
    NONE = "none"
    """Nobody: there is `act`, or calls are steps."""


def tool_path(environment: Any) -> ToolPath:
    """Tells who is asked for an environment's tools."""
    if isinstance(environment, MCPEnvironment):
        return ToolPath.OWN
    if getattr(environment, "mcp_client", None):
        return ToolPath.CLIENT
    if getattr(environment, "mcp_server", None):
        return ToolPath.SERVER
    return ToolPath.NONE


def offers(environment: Any) -> Offers:
    """Returns the resources and prompts of an environment, of ours or of any class."""
    if isinstance(environment, MCPEnvironment):
        return environment._offers
    return Library(environment, run_apart)


def mode_tools(environment: Any) -> dict[str, tuple[Mapping[str, Any], Callable[..., Any]]]:
    """Returns the tools that one of the reference's has in the server's mode beside its client's.

    Each has what describes it (`description`, `input_schema`) and its function.
    """
    functions = getattr(environment, "_mode_tools", {})
    described = getattr(environment, "_mode_tool_schemas", {})
    found = {}
    for name, by_mode in functions.items():
        mode = None if None in by_mode else getattr(environment, "_mode", None)
        if mode in by_mode and mode in described.get(name, {}):
            found[name] = (described[name][mode], by_mode[mode])
    return found


def tool_session(environment: Any) -> AbstractAsyncContextManager[Any] | None:
    """Returns what keeps a connection to an environment's tools open, if it has that."""
    make = getattr(environment, "mcp_session", None)
    if isinstance(environment, MCPEnvironment) or not callable(make):
        return None
    session: AbstractAsyncContextManager[Any] = make()
    return session


def bind_mode(environment: Any, mode: str) -> None:
    """Tells an environment with tools the server's mode, by which it selects some of them."""
    reference = any(base.__module__ == REFERENCE_MCP_MODULE for base in type(environment).__mro__)
    if reference or isinstance(environment, MCPEnvironment):
        environment._mode = mode


def bind_books(environment: Any, books: EpisodeBooks) -> None:
    """Hands an environment of ours what its default state reads."""
    environment._openenv_books = books


def has_rubric(environment: Any) -> bool:
    """Tells whether an environment has a rubric of named parts."""
    return hasattr(getattr(environment, "rubric", None), "named_rubrics")


def has_field(value: Any, name: str) -> bool:
    """Tells whether a pydantic model has a field."""
    return name in getattr(type(value), "model_fields", ())


def remembers_steps(environment: Any) -> bool:
    """Tells whether a part of an environment's rubric keeps the episode's steps."""
    if not has_rubric(environment):
        return False
    rubric = environment.rubric
    parts = [rubric, *(part for _, part in rubric.named_rubrics())]
    return any(hasattr(part, "compute_step_rewards") for part in parts)


def keeps_rng(environment: Any, shape: Shape) -> bool:
    """Tells whether an environment's `rng` is its author's own."""
    if not shape.ours or shape.own_rng:
        return True
    made = vars(environment).get("rng") if hasattr(environment, "__dict__") else None
    return made is not None and not isinstance(made, EpisodeRandom)


def renew_rng(environment: Any) -> None:
    """Has an environment's `rng` made anew when it is next asked for, of the episode's seed."""
    vars(environment).pop("rng", None)


def read_state(environment: Any, shape: Shape, episode_id: str | None, steps: int) -> StateRead:
    """Reads an environment's state, or makes one for a class that has none."""
    if not shape.has_state:
        made = State(episode_id=episode_id, step_count=steps)
        return StateRead(state=made, episode_id=episode_id, step_count=steps)
    state = environment.state
    if not shape.own_state:
        return StateRead(state=state, episode_id=episode_id, step_count=steps)
    if isinstance(state, Mapping):
        named, count = state.get("episode_id"), state.get("step_count")
    else:
        named, count = getattr(state, "episode_id", None), getattr(state, "step_count", None)
    return StateRead(
        state=state,
        episode_id=named if isinstance(named, str) else episode_id,
        step_count=count if isinstance(count, int) else steps,
    )


def reward_parts(environment: Any) -> dict[str, float]:
    """Returns the last scores of an environment's rubric, part by part."""
    if not has_rubric(environment):
        return {}
    parts = environment.rubric.named_rubrics()
    scores = ((name, getattr(part, "last_score", None)) for name, part in parts)
    return {name: float(score) for name, score in scores if isinstance(score, int | float)}


@functools.lru_cache(maxsize=4096)
def observed_fields(cls: type) -> tuple[bool, bool, bool]:
    """Tells whether observations of a class have `reward`, `done`, and a `truncated` that is ours.

    A subclass may have a field of its own named `truncated`, which stays where it is.
    """
    fields = getattr(cls, "model_fields", {})
    truncated = False
    if issubclass(cls, Observation):
        definer = next(base for base in cls.__mro__ if "truncated" in _annotations(base))
        truncated = definer is Observation
    return (
        "reward" in fields or hasattr(cls, "reward"),
        "done" in fields or hasattr(cls, "done"),
        truncated,
    )


def _annotations(cls: type) -> Mapping[str, object]:
    annotations: Mapping[str, object] = vars(cls).get("__annotations__", {})
    return annotations
