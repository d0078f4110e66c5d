"""Functions as tools: described by their signatures, called with checked arguments."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any, Literal, TypeVar, cast, overload

from openenv_grpc.errors import ClientCapabilityError, OpenEnvError
from openenv_grpc.tools.answers import ToolAnswer, ToolInfo, answer_of, failure
from openenv_grpc.tools.declaring import DeclaredFunction
from openenv_grpc.tools.signatures import Signature
from openenv_grpc.types import JsonValue, ServerMode

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
logger = logging.getLogger(__name__)

ToolMode = Literal["production", "simulation"] | ServerMode


class ToolFunction(DeclaredFunction):
    """A function or method that is a tool."""

    kind = "tool"

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        title: str | None = None,
        mode: ToolMode | None = None,
    ) -> None:
        super().__init__(function)
        self.tool_name = name or function.__name__
        self.description = description
        self.title = title
        self.mode = None if mode is None else _mode(mode)

    def bound(self, call: Callable[..., Any]) -> BoundTool:
        """Makes the tool that runs `call`: this function, or this method of some object."""
        return BoundTool(function=self, call=call, signature=self.signature_of(call))


def _mode(mode: str) -> ServerMode:
    try:
        return ServerMode(mode)
    except ValueError:
        raise ValueError(
            f'a tool\'s mode is "production", "simulation" or None, not {mode!r}'
        ) from None


@overload
def tool(function: FunctionT, /) -> FunctionT: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    title: str | None = None,
    mode: ToolMode | None = None,
) -> Callable[[FunctionT], FunctionT]: ...
def tool(
    function: FunctionT | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    title: str | None = None,
    mode: ToolMode | None = None,
) -> Any:
    """Makes a method of an `MCPEnvironment`, or a function, a tool.

    Its arguments are described and checked by its annotations, its description is its docstring.
    With `mode` it exists only while the server runs in that mode. A subclass that overrides the
    method decorates it again.
    """

    def decorate(function: FunctionT) -> FunctionT:
        made = ToolFunction(function, name=name, description=description, title=title, mode=mode)
        return cast(FunctionT, made)

    return decorate if function is None else decorate(function)


@dataclass(frozen=True, slots=True)
class BoundTool:
    """A tool that can be called."""

    function: ToolFunction
    call: Callable[..., Any]
    signature: Signature

    @property
    def name(self) -> str:
        """Name, by which it is called."""
        return self.function.tool_name

    def info(self) -> ToolInfo:
        """Describes the tool."""
        described = self.signature
        return ToolInfo(
            name=self.name,
            title=self.function.title,
            description=self.function.description or described.description,
            input_schema=described.input_schema,
            output_schema=described.output_schema,
        )

    def answer(
        self, arguments: Mapping[str, JsonValue]
    ) -> ToolAnswer | Coroutine[Any, Any, ToolAnswer]:
        """Calls the function; answers at once unless that is `async`. What it raises is an answer.

        Raises:
            InvalidArgumentsError: the arguments do not fit.
            ClientCapabilityError: it asks for what its caller's client does not offer.
        """
        checked = self.signature.read(self.name, arguments)
        try:
            value = self.call(**checked)
            return self._answer_later(value) if isawaitable(value) else self._answer(value)
        except ClientCapabilityError:
            raise
        except Exception as error:  # a tool may raise anything
            return self._failure(error)

    async def _answer_later(self, value: Awaitable[Any]) -> ToolAnswer:
        try:
            return self._answer(await value)
        except ClientCapabilityError:
            raise
        except Exception as error:  # a tool may raise anything
            return self._failure(error)

    def _answer(self, value: Any) -> ToolAnswer:
        return answer_of(value, wrap=self.signature.wraps)

    def _failure(self, error: Exception) -> ToolAnswer:
        logger.debug("tool failed tool=%s", self.name, exc_info=error)
        text = error.message if isinstance(error, OpenEnvError) else str(error)
        return failure(f"Error calling tool {self.name!r}: {text}")
