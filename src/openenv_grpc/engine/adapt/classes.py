"""What an environment's class offers, seen once, when it is registered."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from openenv_grpc.environment import Environment
from openenv_grpc.mcp_environment import MCPEnvironment
from openenv_grpc.tools import ToolFunction
from openenv_grpc.types import Budgets, Isolation

BASES = frozenset({"openenv_grpc.environment", "openenv.core.env_server.interfaces"})
"""Modules of the two base classes of environments."""
DEFAULTS = BASES | {"openenv_grpc.mcp_environment"}
"""Modules whose methods are defaults: an author who has only those has overridden nothing."""

TASK_METHODS = frozenset({"list_splits", "list_tasks", "num_tasks", "get_task", "get_task_range"})
ISOLATIONS = frozenset(each.value for each in Isolation)
HANDED_BY_ENGINE = frozenset({"seed", "episode_id"})
"""Keywords of a reset that mean something even where the method does not take them."""


@dataclass(frozen=True, slots=True)
class Method:
    """A method of an environment."""

    name: str
    asynchronous: bool
    accepted: frozenset[str]
    """Names of the keywords that it takes."""
    accepts_any: bool
    given: frozenset[str]
    """Names of what it is given by position, and so takes no keyword of."""

    def accepts(self, keyword: str) -> bool:
        """Tells whether it takes a keyword."""
        return keyword in self.accepted or (self.accepts_any and keyword not in self.given)

    def of(self, target: object) -> Callable[..., Any]:
        """Returns it bound to an environment, whose attribute of that name may be its own."""
        found: Callable[..., Any] = getattr(target, self.name)
        return found

    def call(self, target: object, /, *arguments: object, **keywords: object) -> Any:
        """Calls it; returns an awaitable if it is asynchronous."""
        return getattr(target, self.name)(*arguments, **keywords)


@dataclass(frozen=True, slots=True)
class Shape:
    """What a class offers."""

    cls: type
    reset: Method
    step: Method
    close: Method | None
    evaluate: Method | None
    tasks: Mapping[str, Method]
    snapshot: Method | None
    restore: Method | None
    snapshot_fields: tuple[str, ...] | None
    """Attributes that are its state, by its author's word; `None` where there is no such word."""
    ours: bool
    """Whether it derives from our `Environment`, for which books are kept."""
    has_state: bool
    own_state: bool
    """Whether its author keeps the state, rather than the engine."""
    own_rng: bool
    has_tools: bool
    default_metadata: bool
    concurrent_sessions: bool
    single_thread: bool
    isolation: str
    requires_reset: bool
    budgets: Budgets

    @property
    def on_loop(self) -> bool:
        """Whether nothing of it needs a thread between construction and close."""
        return self.reset.asynchronous and self.step.asynchronous

    @property
    def can_be_saved(self) -> bool:
        """Whether sessions of it can be saved and forked."""
        return self.snapshot is not None or self.snapshot_fields is not None


@functools.lru_cache(maxsize=1024)
def shape_of(cls: type) -> Shape:
    """Looks at a class.

    Raises:
        TypeError: it is no environment, or has tools that nobody could call.
    """
    for name in ("reset", "step"):
        if not callable(getattr(cls, name, None)):
            raise TypeError(
                f"{cls.__qualname__} is no environment: it has no {name}(); derive it from "
                "openenv_grpc.Environment"
            )
    reset, step = _preferred(cls, "reset"), _preferred(cls, "step")
    isolation: str = getattr(cls, "ISOLATION", "thread")
    if isolation not in ISOLATIONS:
        raise TypeError(
            f"{cls.__qualname__}.ISOLATION is {isolation!r}; it may be "
            f"{', '.join(sorted(ISOLATIONS))}"
        )
    snapshot, restore = _saving(cls)
    return Shape(
        cls=cls,
        reset=reset,
        step=step,
        close=None if _does_nothing_to_close(cls) else _optional(cls, "close"),
        evaluate=_optional(cls, "evaluate"),
        tasks={name: _method(cls, name) for name in TASK_METHODS if _optional(cls, name)},
        snapshot=snapshot,
        restore=restore,
        snapshot_fields=_snapshot_fields(cls),
        ours=issubclass(cls, Environment),
        has_state=_definer(cls, "state") is not None,
        own_state=_overrides(cls, "state"),
        own_rng=_overrides(cls, "rng"),
        has_tools=_has_tools(cls),
        default_metadata=not _overrides(cls, "get_metadata"),
        concurrent_sessions=bool(getattr(cls, "SUPPORTS_CONCURRENT_SESSIONS", False)),
        single_thread=bool(getattr(cls, "REQUIRES_SINGLE_THREAD_EXECUTOR", False)),
        isolation=isolation,
        requires_reset=bool(getattr(cls, "REQUIRES_RESET", False)),
        budgets=_budgets(cls),
    )


def shape_of_instance(environment: object) -> Shape:
    """Looks at the class of an instance. Raises what `shape_of` raises."""
    cls: type = type(environment)
    return shape_of(cls)


def factory_class(factory: Callable[..., Any]) -> type | None:
    """Returns the class that a factory builds, if it is one, or a partial of one."""
    while isinstance(factory, functools.partial):
        factory = factory.func
    return factory if isinstance(factory, type) else None


def factory_name(factory: Callable[..., Any]) -> str:
    """Names a factory, for messages."""
    return str(getattr(factory, "__name__", "") or factory)


def environment_name(factory: Callable[..., Any]) -> str:
    """Names the environment of a factory that was given no name."""
    return str(getattr(factory, "__name__", "environment"))


def _budgets(cls: type) -> Budgets:
    """Returns what a class says of its times; one that is not ours may mean another thing by it."""
    budgets = getattr(cls, "BUDGETS", None)
    if isinstance(budgets, Budgets):
        return budgets
    if issubclass(cls, Environment):
        raise TypeError(
            f"{cls.__qualname__}.BUDGETS is {budgets!r}; it has to be openenv_grpc.Budgets(...)"
        )
    return Budgets()


def _preferred(cls: type, name: str) -> Method:
    """Returns the asynchronous variant of a method where the author wrote one."""
    variant = f"{name}_async"
    return _method(cls, variant if _overrides(cls, variant) else name)


def _optional(cls: type, name: str) -> Method | None:
    return _method(cls, name) if callable(getattr(cls, name, None)) else None


def _method(cls: type, name: str) -> Method:
    function = getattr(cls, name)
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # callables written in C may not tell
        return Method(name, _is_async(function), frozenset(), accepts_any=True, given=frozenset())
    # The first is `self`, and the second of a step its action, whatever their names.
    skipped = 2 if name in ("step", "step_async") else 1
    return Method(
        name,
        _is_async(function),
        frozenset(
            parameter.name
            for parameter in parameters[skipped:]
            if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        ),
        any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters),
        frozenset(
            parameter.name
            for parameter in parameters[:skipped]
            if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        ),
    )


def _is_async(function: Any) -> bool:
    return inspect.iscoroutinefunction(inspect.unwrap(function))


def _saving(cls: type) -> tuple[Method, Method] | tuple[None, None]:
    """Returns `snapshot` and `restore` where both are there and take what the engine gives.

    A tool may well have one of these names.
    """
    found: list[Any] = [getattr(cls, name, None) for name in ("snapshot", "restore")]
    if not all(map(callable, found)) or any(isinstance(each, ToolFunction) for each in found):
        return None, None
    snapshot, restore = found
    try:
        inspect.signature(snapshot).bind(None)
        inspect.signature(restore).bind(None, b"")
    except (TypeError, ValueError):
        return None, None
    return _method(cls, "snapshot"), _method(cls, "restore")


def _snapshot_fields(cls: type) -> tuple[str, ...] | None:
    fields: Any = getattr(cls, "SNAPSHOT_FIELDS", None)
    if fields is None:
        return None
    if isinstance(fields, str) or not all(isinstance(name, str) for name in fields):
        raise TypeError(
            f"{cls.__qualname__}.SNAPSHOT_FIELDS is {fields!r}; it is a list of attributes' names"
        )
    return tuple(fields)


def _definer(cls: type, name: str) -> type | None:
    return next((base for base in cls.__mro__ if name in vars(base)), None)


def _overrides(cls: type, name: str) -> bool:
    """Tells whether the author wrote it, rather than a base class of the framework."""
    definer = _definer(cls, name)
    return definer is not None and definer.__module__ not in DEFAULTS


def _does_nothing_to_close(cls: type) -> bool:
    definer = _definer(cls, "close")
    return definer is not None and definer.__module__ in BASES


def _has_tools(cls: type) -> bool:
    if issubclass(cls, MCPEnvironment):
        return True
    for base in cls.__mro__:
        for name, member in vars(base).items():
            if isinstance(member, ToolFunction):
                raise TypeError(
                    f"{cls.__qualname__}.{name} is under @tool, but {cls.__qualname__} is no "
                    "MCPEnvironment, so nobody could call it; derive the class from MCPEnvironment"
                )
    return any(hasattr(cls, name) for name in ("mcp_client", "mcp_server", "mcp_session"))
