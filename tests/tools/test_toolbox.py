"""The tools of one object, by name and mode."""

from __future__ import annotations

import pytest

from openenv_grpc.errors import ToolNotFoundError
from openenv_grpc.tools import Toolbox, ToolFunction, tool
from openenv_grpc.types import ServerMode

SIMULATION, PRODUCTION = ServerMode.SIMULATION, ServerMode.PRODUCTION


class Base:
    @tool
    def first(self) -> str:
        return "base"

    @tool
    def second(self) -> str:
        return "base"

    @tool(mode="simulation")
    def rehearse(self) -> str:
        return "rehearsed"

    @tool(mode="production", name="rehearse")
    def perform(self) -> str:
        return "performed"

    @tool(mode="production")
    def ship(self) -> str:
        return "shipped"


class Derived(Base):
    @tool
    def second(self) -> str:
        return "derived"

    @tool
    def third(self) -> str:
        return "derived"


class Hiding(Base):
    def first(self) -> str:
        return "no tool any more"


def names(owner: object, mode: ServerMode = SIMULATION) -> list[str]:
    return [tool.name for tool in Toolbox(owner).available(mode)]


def test_tools_come_in_the_order_of_their_definition() -> None:
    assert names(Derived()) == ["first", "second", "rehearse", "third"]


def test_an_overridden_tool_is_the_subclasss() -> None:
    assert Toolbox(Derived()).find("second", SIMULATION).call() == "derived"


def test_a_method_that_is_overridden_without_the_decorator_is_no_tool() -> None:
    assert "first" not in Toolbox(Hiding())


def test_tools_exist_in_their_mode_alone() -> None:
    box = Toolbox(Base())

    assert names(Base(), PRODUCTION) == ["first", "second", "rehearse", "ship"]
    assert box.find("rehearse", SIMULATION).call() == "rehearsed"
    assert box.find("rehearse", PRODUCTION).call() == "performed"
    with pytest.raises(ToolNotFoundError, match="Tool 'ship' not available in simulation mode"):
        box.find("ship", SIMULATION)


def test_a_tool_that_is_not_there_is_not_found() -> None:
    with pytest.raises(ToolNotFoundError) as raised:
        Toolbox(Base()).find("third", SIMULATION)

    assert raised.value.message == "Unknown tool: 'third'"


def test_functions_can_be_added() -> None:
    def second() -> str:
        return "added"

    box = Toolbox(Base())
    box.add(ToolFunction(second).bound(second))

    assert box.find("second", SIMULATION).call() == "added"


@pytest.mark.parametrize("name", ["reset", "step", "state", "close"])
def test_reserved_names_are_refused(name: str) -> None:
    def act() -> None: ...

    made = ToolFunction(act, name=name)
    with pytest.raises(ValueError, match=f"the tool name '{name}' is reserved"):
        Toolbox(object()).add(made.bound(act))


def test_a_class_with_a_reserved_tool_has_no_toolbox() -> None:
    class Cheat:
        @tool
        def reset(self) -> None: ...

    with pytest.raises(ValueError, match="'reset' is reserved"):
        Toolbox(Cheat())
