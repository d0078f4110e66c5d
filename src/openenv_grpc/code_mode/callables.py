"""Tools as functions of Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from openenv_grpc.tools import ToolAnswer, ToolInfo
from openenv_grpc.types import JsonValue

CallTool = Callable[[str, Mapping[str, JsonValue]], ToolAnswer]


class ToolFailedError(RuntimeError):
    """The tool failed. The message is what an agent would read."""


class Callables:
    """Makes functions of tools, and adds up what their answers have for the trainer."""

    def __init__(self, call_tool: CallTool) -> None:
        self._call_tool = call_tool
        self.reward: float | None = None
        """What the calls have earned; `None` where no tool gave any reward."""
        self.terminated = False
        self.truncated = False

    def functions(self, tools: Sequence[ToolInfo]) -> dict[str, Callable[..., Any]]:
        """Makes a function of each tool. It takes arguments by name, or in the schema's order.

        It returns the tool's data, and where there is none its content, if any. It raises
        `ToolFailedError`, or what calling a tool raises.
        """
        return {tool.name: self._function(tool) for tool in tools}

    def _function(self, tool: ToolInfo) -> Callable[..., Any]:
        names = list(tool.input_schema.get("properties", {}))

        def function(*args: Any, **kwargs: Any) -> Any:
            if len(args) > len(names):
                raise TypeError(f"{tool.name}() takes {len(names)} arguments, not {len(args)}")
            given = dict(zip(names, args, strict=False))
            twice = given.keys() & kwargs.keys()
            if twice:
                raise TypeError(f"{tool.name}() got the argument {min(twice)!r} twice")
            return self._data(self._call_tool(tool.name, {**given, **kwargs}))

        function.__name__ = function.__qualname__ = tool.name
        function.__doc__ = tool.description
        return function

    def _data(self, answer: ToolAnswer) -> Any:
        if answer.reward is not None:
            self.reward = (self.reward or 0.0) + answer.reward
        self.terminated = self.terminated or answer.terminated
        self.truncated = self.truncated or answer.truncated
        if answer.is_error:
            raise ToolFailedError(answer.text())
        return answer.as_result() if answer.data is None and answer.content else answer.data
