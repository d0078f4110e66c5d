"""Functions as tools: their schema from their signature, and calls with checked arguments."""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import cached_property, update_wrapper
from inspect import isawaitable
from typing import Any, Literal, TypeVar, cast, overload

from pydantic import PydanticUserError, TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema

from openenv_grpc.errors import InvalidArgumentsError, OpenEnvError, Violation
from openenv_grpc.serialization import violations
from openenv_grpc.tools.answers import (
    Media,
    ToolAnswer,
    ToolInfo,
    ToolOutcome,
    answer_of,
    failure,
)
from openenv_grpc.types import JsonValue, ServerMode

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
logger = logging.getLogger(__name__)

ToolMode = Literal["production", "simulation"] | ServerMode


class ToolFunction:
    """A function or method that is a tool. It can still be called as what it was."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        title: str | None = None,
        mode: ToolMode | None = None,
    ) -> None:
        update_wrapper(self, function)
        self.function = function
        self.tool_name = name or function.__name__
        self.description = description
        self.title = title
        self.mode = None if mode is None else _mode(mode)
        self._signature: ToolSignature | None = None

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else self.function.__get__(instance, owner)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function."""
        return self.function(*args, **kwargs)

    def bound(self, call: Callable[..., Any]) -> BoundTool:
        """Makes the tool that runs `call`: this function, or this method of some object."""
        if self._signature is None:
            self._signature = ToolSignature(call)  # the same for each instance of a class
        return BoundTool(function=self, call=call, signature=self._signature)


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
    signature: ToolSignature

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
        """
        checked = self.signature.read(self.name, arguments)
        try:
            value = self.call(**checked)
            return self._answer_later(value) if isawaitable(value) else self._answer(value)
        except Exception as error:  # a tool may raise anything
            return self._failure(error)

    async def _answer_later(self, value: Awaitable[Any]) -> ToolAnswer:
        try:
            return self._answer(await value)
        except Exception as error:  # a tool may raise anything
            return self._failure(error)

    def _answer(self, value: Any) -> ToolAnswer:
        return answer_of(value, wrap=self.signature.wraps)

    def _failure(self, error: Exception) -> ToolAnswer:
        logger.debug("tool failed tool=%s", self.name, exc_info=error)
        text = error.message if isinstance(error, OpenEnvError) else str(error)
        return failure(f"Error calling tool {self.name!r}: {text}")


class _PlainSchema(GenerateJsonSchema):
    """Leaves out the titles that pydantic makes of names: a model reads them for nothing."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


_TELLS_NOTHING = (inspect.Signature.empty, None, Any, object, bytes, ToolOutcome, Media)
"""Return annotations that make no output schema."""


class ToolSignature:
    """What a function takes and returns, as schemas."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @cached_property
    def _declared(self) -> inspect.Signature:
        declared = inspect.signature(self._function, eval_str=True)
        for name, parameter in declared.parameters.items():
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
                raise TypeError(
                    f"parameter {name!r} of the tool {self._function.__name__!r} has no name to "
                    "callers: tools take their arguments by name"
                )
        return declared

    @cached_property
    def _arguments(self) -> TypeAdapter[dict[str, Any]]:
        def collect(**arguments: Any) -> dict[str, Any]:
            return arguments

        # pydantic reads a function's signature; this one returns what it is called with.
        collect.__signature__ = self._declared  # type: ignore[attr-defined]
        collect.__annotations__ = {
            name: parameter.annotation
            for name, parameter in self._declared.parameters.items()
            if parameter.annotation is not parameter.empty
        }
        return TypeAdapter[dict[str, Any]](collect)  # type: ignore[arg-type]  # a function, too, is fine

    @cached_property
    def _documented(self) -> tuple[str, dict[str, str]]:
        return split_docstring(inspect.getdoc(self._function) or "")

    @property
    def description(self) -> str:
        """The docstring, without its list of arguments."""
        return self._documented[0]

    @cached_property
    def input_schema(self) -> dict[str, JsonValue]:
        """JSON Schema of the arguments."""
        schema = self._arguments.json_schema(schema_generator=_PlainSchema)
        for name, text in self._documented[1].items():
            if name in schema["properties"]:
                schema["properties"][name].setdefault("description", text)
        return schema

    @cached_property
    def output_schema(self) -> dict[str, JsonValue] | None:
        """JSON Schema of the structured content; `None` where the annotation tells nothing."""
        annotation = self._declared.return_annotation
        return None if annotation in _TELLS_NOTHING else _output_schema(annotation)

    @property
    def wraps(self) -> bool:
        """Whether the output schema wants `{"result": …}` around every value."""
        return bool(self.output_schema and "x-fastmcp-wrap-result" in self.output_schema)

    def read(self, name: str, arguments: Mapping[str, JsonValue]) -> dict[str, Any]:
        """Checks and converts arguments.

        Raises:
            InvalidArgumentsError: they do not fit. `__cause__` is pydantic's error.
        """
        try:
            return self._arguments.validate_python(dict(arguments))
        except ValidationError as error:
            raise invalid_arguments(name, violations(error)) from error


def invalid_arguments(name: str, found: tuple[Violation, ...]) -> InvalidArgumentsError:
    """Makes the error for arguments that do not fit."""
    told = "; ".join(f"{violation.path.lstrip('/')}: {violation.message}" for violation in found)
    return InvalidArgumentsError(f"Invalid arguments for tool {name!r}: {told}", violations=found)


def _output_schema(annotation: Any) -> dict[str, JsonValue] | None:
    try:
        schema = TypeAdapter(annotation).json_schema(
            mode="serialization", schema_generator=_PlainSchema
        )
    except PydanticUserError:
        return None  # a type that pydantic does not know; the value may become JSON all the same
    if schema.get("type") == "object":
        return schema
    definitions = schema.pop("$defs", None)
    wrapped: dict[str, JsonValue] = {
        "type": "object",
        "properties": {"result": schema},
        "required": ["result"],
        "x-fastmcp-wrap-result": True,  # by which clients of fastmcp unwrap it again
    }
    return wrapped if definitions is None else {**wrapped, "$defs": definitions}


def split_docstring(docstring: str) -> tuple[str, dict[str, str]]:
    """Splits a docstring into its description and what `Args:` says of each argument."""
    before, heading, after = docstring.partition("\nArgs:\n")
    if not heading:
        return docstring.strip(), {}
    section, *rest = re.split(r"\n(?=\S)", after, maxsplit=1)
    entries = re.findall(
        r"^ {2,4}\*{0,2}(\w+)(?: \([^)\n]*\))?: ?(.*(?:\n {5,}.*)*)", section, re.MULTILINE
    )
    arguments = {name: " ".join(text.split()) for name, text in entries}
    return "\n\n".join([before.strip(), *rest]).strip(), arguments
