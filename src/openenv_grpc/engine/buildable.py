"""What keeps an environment from ever being built, as far as its class or its factory tells."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from openenv_grpc.errors import ConfigurationError
from openenv_grpc.mcp_environment import MCPEnvironment
from openenv_grpc.tools import RESERVED_TOOL_NAMES
from openenv_grpc.tools.functions import ToolFunction


def check_buildable(factory: Callable[..., Any], cls: type | None) -> None:
    """Refuses what fails at every attempt, so that a server does not start with it.

    `cls` is the class that the factory is, or is a partial of; `None` for a function, which may
    build what it likes.

    Raises:
        ConfigurationError: names what is missing.
    """
    if cls is not None:
        _check_abstract(cls)
        _check_tools(cls)
    _check_arguments(factory, cls)


def _check_abstract(cls: type) -> None:
    missing = vars(cls).get("__abstractmethods__", ())
    # What a class makes in a `__new__` of its own may be of another class.
    builds_another = any("__new__" in vars(base) for base in cls.__mro__ if base is not object)
    if missing and not builds_another:
        raise ConfigurationError(
            f"{cls.__qualname__} cannot be built: it does not define "
            f"{', '.join(sorted(missing))}; write what is missing in the class"
        )


def _check_tools(cls: type) -> None:
    if not issubclass(cls, MCPEnvironment):
        return
    attributes: dict[str, object] = {}
    for base in reversed(cls.__mro__):
        attributes.update(vars(base))
    for name, value in attributes.items():
        if isinstance(value, ToolFunction) and value.tool_name in RESERVED_TOOL_NAMES:
            raise ConfigurationError(
                f"{cls.__qualname__} cannot be built: its tool {name} has the reserved name "
                f"{value.tool_name!r}; no tool may be named "
                f"{', '.join(sorted(RESERVED_TOOL_NAMES))}"
            )


def _check_arguments(factory: Callable[..., Any], cls: type | None) -> None:
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):  # callables written in C may not tell
        return
    missing = [
        parameter.name
        for parameter in parameters
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    if missing:
        what = "the factory" if cls is None else f"{cls.__qualname__}.__init__"
        raise ConfigurationError(
            f"an environment is built without arguments, but {what} needs {', '.join(missing)}; "
            "give defaults, or hand in a function that builds one"
        )
