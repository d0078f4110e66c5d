"""An environment's action, observation and state classes, read off its annotations."""

from __future__ import annotations

import functools
import inspect
import sys
import typing
from collections.abc import Iterable
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

from openenv_grpc import tools
from openenv_grpc.errors import ConfigurationError
from openenv_grpc.mcp_environment import MCPEnvironment
from openenv_grpc.serialization import model_type
from openenv_grpc.types import State

REFERENCE_MCP_MODULE = "openenv.core.env_server.mcp_environment"
REFERENCE_TOOL_TYPES = "openenv.core.env_server.mcp_types"
_GENERIC = ("Environment", "MCPEnvironment")
FRAMEWORKS = ("openenv_grpc.", "openenv.core.")
"""Modules that an author derives from. What they say of types says nothing of the author's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTypes:
    """What annotations tell; `None` where they do not."""

    action: Any = None
    observation: Any = None
    state: Any = State


def find_types(factory: Any) -> FoundTypes:
    """Reads the classes off an environment's class, or off the class that a function returns.

    Type parameters count first (`Environment[Move, Board, State]`), then the annotations of `step`,
    `_step_impl`, `reset` and `state`. Those of an environment that has only tools are theirs.

    Raises:
        ConfigurationError: it is no environment.
    """
    while isinstance(factory, functools.partial):
        factory = factory.func
    cls = factory if isinstance(factory, type) else _hints(factory).get("return")
    if not isinstance(cls, type):
        return FoundTypes()
    members = dict(inspect.getmembers_static(cls))
    for name in ("reset", "step"):
        if name not in members:
            raise ConfigurationError(
                f"{cls.__module__}:{cls.__qualname__} is no environment: it has no {name}(); "
                "derive it from openenv_grpc.Environment"
            )
    action, observation, state = _type_parameters(cls)
    steps = [_hints(members.get(name)) for name in ("step", "step_async", "_step_impl")]
    reset, state_property = _hints(members["reset"]), members.get("state")
    getter = state_property.fget if isinstance(state_property, property) else None
    found = FoundTypes(
        action=_first_model([action, *(hints.get("action") for hints in steps)]),
        observation=_first_model(
            [observation, *(hints.get("return") for hints in steps), reset.get("return")]
        ),
        state=_first_model([state, _hints(getter).get("return")]) or State,
    )
    tool_types = _tool_types(cls)
    if tool_types is None or found.action is not None:
        return found
    return replace(
        found, action=tool_types.CallToolAction, observation=tool_types.CallToolObservation
    )


def _tool_types(cls: type) -> ModuleType | None:
    """Returns the module that has the tool actions of an environment with tools."""
    for base in cls.__mro__:
        if base is MCPEnvironment:
            return tools
        if base.__module__ == REFERENCE_MCP_MODULE:
            return sys.modules[REFERENCE_TOOL_TYPES]
    return None


def _type_parameters(cls: type) -> tuple[Any, Any, Any]:
    """Returns what the nearest `Environment[A, O, S]` among the author's bases is given.

    Or `MCPEnvironment`.
    """
    for base in cls.__mro__:
        if _of_framework(base):
            break
        for generic in base.__dict__.get("__orig_bases__", ()):
            origin, arguments = typing.get_origin(generic), typing.get_args(generic)
            # By name, since the reference's class is served too.
            if origin is not None and origin.__name__ in _GENERIC and len(arguments) == 3:
                return arguments[0], arguments[1], arguments[2]
    return None, None, None


def _hints(function: Any) -> dict[str, Any]:
    if function is None or _of_framework(function):
        return {}
    try:
        return typing.get_type_hints(function)
    except Exception:  # annotations may name what an author imports for type checkers alone
        return {}


def _of_framework(definition: Any) -> bool:
    module: str = definition.__module__
    return module.startswith(FRAMEWORKS)


def _first_model(candidates: Iterable[Any]) -> Any:
    return next((found for found in candidates if model_type(found)), None)
