from __future__ import annotations

import functools
import random
from typing import Any, ClassVar

import pytest

from openenv_grpc.engine import adapt
from openenv_grpc.engine.adapt import ToolPath, shape_of
from openenv_grpc.environment import Environment
from openenv_grpc.tools import tool
from openenv_grpc.types import Observation, State
from tests.environments import (
    AsyncCountdown,
    Count,
    Countdown,
    Counted,
    OwnBooks,
    Toolbox,
    ToolSteps,
)


def test_defaults_of_the_base_classes_count_as_not_overridden() -> None:
    shape = shape_of(Countdown)
    assert (shape.reset.name, shape.step.name) == ("reset", "step")
    assert not shape.reset.asynchronous
    assert (shape.own_state, shape.own_rng, shape.default_metadata) == (False, False, True)
    assert shape.close is None
    assert not shape.on_loop


def test_asynchronous_variants_are_used_where_an_author_wrote_them() -> None:
    shape = shape_of(AsyncCountdown)
    assert (shape.reset.name, shape.step.name) == ("reset_async", "step_async")
    assert shape.on_loop


def test_our_environment_with_tools_runs_on_a_thread() -> None:
    shape = shape_of(Toolbox)
    assert shape.step.name == "step"
    assert shape.has_tools
    assert shape.close is not None


def test_a_wrapped_coroutine_function_is_awaited() -> None:
    def logged(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*arguments: Any, **keywords: Any) -> Any:
            return function(*arguments, **keywords)

        return wrapper

    class Wrapped:
        @logged
        async def reset(self) -> None: ...

        @logged
        async def step(self, action: Any) -> None: ...

    assert shape_of(Wrapped).on_loop


def test_the_action_is_no_keyword_whatever_its_name() -> None:
    class Odd(Countdown):
        def step(self, move: Count, *, speed: int = 1) -> Counted:  # type: ignore[override]
            return Counted()

    step = shape_of(Odd).step
    assert step.accepted == {"speed"}
    assert not step.accepts("move")
    assert shape_of(OwnBooks).step.accepts("anything")


@pytest.mark.parametrize("missing", ["reset", "step"])
def test_a_class_without_its_methods_is_no_environment(missing: str) -> None:
    members = {name: lambda self: None for name in ("reset", "step") if name != missing}
    with pytest.raises(TypeError, match=rf"Broken is no environment: it has no {missing}\(\)"):
        shape_of(type("Broken", (), members))


def test_an_unknown_isolation_is_refused() -> None:
    class Isolated(Countdown):
        ISOLATION: ClassVar[str] = "island"

    with pytest.raises(TypeError, match="'island'"):
        shape_of(Isolated)


def test_a_source_of_randomness_of_the_authors_is_left_alone() -> None:
    class OnClass(Countdown):
        rng: Any = None

    class OnInstance(Countdown):
        def __init__(self) -> None:
            super().__init__()
            self.rng = random.Random(42)

    class Drawn(Countdown):
        def __init__(self) -> None:
            super().__init__()
            self.rng.random()

    for cls, kept in ((OnClass, True), (OnInstance, True), (Drawn, False), (Countdown, False)):
        assert adapt.keeps_rng(cls(), shape_of(cls)) is kept


def test_only_our_own_field_tells_that_an_episode_was_cut_short() -> None:
    class Own(Observation):
        truncated: Any = "yes"

    class Below(Counted):
        more: int = 0

    class Foreign:
        reward = 1.0

    assert adapt.observed_fields(Below) == (True, True, True)
    assert adapt.observed_fields(Own) == (True, True, False)
    assert adapt.observed_fields(Foreign) == (True, False, False)
    assert adapt.observed_fields(dict) == (False, False, False)


def test_a_state_may_be_a_mapping() -> None:
    class Mapped(Countdown):
        @property
        def state(self) -> Any:
            return {"episode_id": "mine", "step_count": 4}

    read = adapt.read_state(Mapped(), shape_of(Mapped), "other", 1)
    assert (read.episode_id, read.step_count) == ("mine", 4)


def test_a_class_without_a_state_gets_one() -> None:
    class Bare:
        def reset(self) -> None: ...

        def step(self, action: Any) -> None: ...

    read = adapt.read_state(Bare(), shape_of(Bare), "episode", 2)
    assert read.state == State(episode_id="episode", step_count=2)


def test_who_is_asked_for_tools_is_told_by_the_instance() -> None:
    class WithClient(Countdown):
        mcp_client: Any = object()

    class WithServer(Countdown):
        mcp_client: Any = None
        mcp_server: Any = object()

    assert adapt.tool_path(Toolbox()) is ToolPath.OWN
    assert adapt.tool_path(WithClient()) is ToolPath.CLIENT
    assert adapt.tool_path(WithServer()) is ToolPath.SERVER
    assert adapt.tool_path(ToolSteps()) is ToolPath.NONE


def test_factories_have_names() -> None:
    assert adapt.environment_name(Countdown) == "Countdown"
    assert adapt.environment_name(functools.partial(Countdown)) == "environment"
    assert adapt.environment_name(lambda: None) == "<lambda>"
    assert adapt.factory_class(functools.partial(functools.partial(Countdown))) is Countdown
    assert adapt.factory_class(lambda: Countdown()) is None


def test_the_base_class_itself_can_be_looked_at() -> None:
    assert not shape_of(Environment).own_state


def test_a_tool_of_a_class_that_offers_none_is_a_mistake() -> None:
    class Mistaken(Countdown):
        @tool
        def look(self) -> str:
            """Looks."""
            return "dark"

    with pytest.raises(TypeError, match=r"look is under @tool, but .* is no MCPEnvironment"):
        shape_of(Mistaken)
