"""Environments that could never be built are refused when they are registered."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import pytest

from openenv_grpc import Environment, MCPEnvironment
from openenv_grpc.engine import EngineSettings
from openenv_grpc.engine.registry import register
from openenv_grpc.errors import ConfigurationError
from openenv_grpc.tools import tool
from openenv_grpc.types import Action, Observation, State
from tests.engine.talking import definition
from tests.environments import Count, Countdown, Toolbox


class Unfinished(Environment[Action, Observation, State]):
    def reset(self, seed: int | None = None, episode_id: str | None = None) -> Observation:
        return Observation()


class Board(Countdown):
    @abstractmethod
    def legal(self) -> list[int]: ...

    def step(self, action: Count, timeout_s: float | None = None) -> Any:
        return super().step(action, timeout_s)


class Chess(Board):
    def legal(self) -> list[int]:
        return []


class Sized(Countdown):
    def __init__(self, size: int, *, depth: int, colour: str = "white") -> None:
        super().__init__()


class Resetting(Toolbox):
    @tool(name="reset")
    def start_over(self) -> str:
        """Starts over."""
        return ""


class Sane(Resetting):
    start_over = None  # type: ignore[assignment]


class Choosing(Board):
    def __new__(cls) -> Any:
        return object.__new__(Chess)


def sized(size: int) -> Countdown:
    return Sized(size, depth=1)


def refused(factory: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        register(definition(factory), EngineSettings())
    return str(caught.value)


@pytest.mark.parametrize(
    ("factory", "told"),
    [
        (Unfinished, ("Unfinished", "step")),
        (Board, ("Board", "legal")),
        (functools.partial(Board), ("Board", "legal")),
        (Sized, ("Sized.__init__", "size, depth")),
        (functools.partial(Sized, 8), ("Sized.__init__", "needs depth")),
        (sized, ("the factory", "size")),
        (Resetting, ("Resetting", "start_over", "'reset'")),
    ],
    ids=["no step", "abstract", "partial", "arguments", "some arguments", "function", "tool"],
)
def test_what_can_never_be_built_is_refused_with_what_is_missing(
    factory: Any, told: tuple[str, ...]
) -> None:
    message = refused(factory)

    for part in told:
        assert part in message
    assert len(message.splitlines()) == 1


@pytest.mark.parametrize(
    "factory",
    [
        Chess,
        Sane,
        Choosing,
        functools.partial(Sized, 8, depth=1),
        functools.partial(sized, 8),
        lambda: Sized(8, depth=1),
        lambda size=8: Sized(size, depth=1),
        lambda *args, **kwargs: Chess(),
    ],
)
def test_what_can_be_built_is_taken(factory: Callable[..., Any]) -> None:
    register(definition(factory), EngineSettings())


def test_a_class_with_tools_of_its_own_names_is_taken() -> None:
    class Server(MCPEnvironment):
        def reset(self, seed: int | None = None, episode_id: str | None = None) -> Observation:
            return Observation()

        @tool
        def begin(self) -> str:
            """Begins."""
            return ""

    register(definition(Server), EngineSettings())
