"""The tools of one object: those of its class, and those that it was given."""

from __future__ import annotations

from collections.abc import Iterator

from openenv_grpc.errors import ToolNotFoundError
from openenv_grpc.tools.actions import RESERVED_TOOL_NAMES
from openenv_grpc.tools.declaring import declared
from openenv_grpc.tools.functions import BoundTool, ToolFunction
from openenv_grpc.types import ServerMode


class Toolbox:
    """Tools by name, and under each name by the mode in which it exists.

    Raises:
        ValueError: a method under `@tool` has a reserved name.
    """

    def __init__(self, owner: object) -> None:
        self._tools: dict[str, dict[ServerMode | None, BoundTool]] = {}
        for function in declared(owner, ToolFunction):
            self.add(function.bound(function.__get__(owner)))

    def add(self, tool: BoundTool) -> None:
        """Adds a tool, in the place of one of the same name and mode.

        Raises:
            ValueError: its name is reserved.
        """
        check_name(tool.name)
        self._tools.setdefault(tool.name, {})[tool.function.mode] = tool

    def __iter__(self) -> Iterator[BoundTool]:
        for modes in self._tools.values():
            yield from modes.values()

    def __contains__(self, name: str) -> bool:
        return name in self._tools

    def available(self, mode: ServerMode) -> list[BoundTool]:
        """Lists the tools that exist in a mode."""
        found = (modes.get(mode) or modes.get(None) for modes in self._tools.values())
        return [tool for tool in found if tool is not None]

    def find(self, name: str, mode: ServerMode) -> BoundTool:
        """Returns a tool.

        Raises:
            ToolNotFoundError: there is none of that name, or not in that mode.
        """
        if name not in self._tools:
            raise ToolNotFoundError(f"Unknown tool: {name!r}")
        modes = self._tools[name]
        tool = modes.get(mode) or modes.get(None)
        if tool is None:
            raise ToolNotFoundError(f"Tool {name!r} not available in {mode} mode")
        return tool


def check_name(name: str) -> None:
    """Refuses names that no tool may have.

    Raises:
        ValueError: it is one of them.
    """
    if name in RESERVED_TOOL_NAMES:
        raise ValueError(
            f"the tool name {name!r} is reserved: an agent must not reset, step, read or close an "
            f"environment. Reserved are {', '.join(sorted(RESERVED_TOOL_NAMES))}"
        )
