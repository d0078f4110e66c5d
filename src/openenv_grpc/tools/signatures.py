"""What a function takes and returns, as schemas, and arguments checked by them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from pydantic import PydanticUserError, TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema

from openenv_grpc.errors import InvalidArgumentsError, Violation
from openenv_grpc.serialization import violations
from openenv_grpc.tools.answers import Media, ToolOutcome
from openenv_grpc.types import JsonValue


class _PlainSchema(GenerateJsonSchema):
    """Leaves out the titles that pydantic makes of names: a model reads them for nothing."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


_TELLS_NOTHING = (inspect.Signature.empty, None, Any, object, bytes, ToolOutcome, Media)
"""Return annotations that make no output schema."""


class Signature:
    """What a function takes and returns, as schemas."""

    def __init__(self, function: Callable[..., Any], *, kind: str = "tool") -> None:
        self._function = function
        self._kind = kind

    @cached_property
    def _declared(self) -> inspect.Signature:
        declared = inspect.signature(self._function, eval_str=True)
        for name, parameter in declared.parameters.items():
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
                raise TypeError(
                    f"parameter {name!r} of the {self._kind} {self._function.__name__!r} has no "
                    f"name to callers: {self._kind}s take their arguments by name"
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
            raise invalid_arguments(name, violations(error), kind=self._kind) from error


def invalid_arguments(
    name: str, found: tuple[Violation, ...], *, kind: str = "tool"
) -> InvalidArgumentsError:
    """Makes the error for arguments that do not fit."""
    told = "; ".join(f"{violation.path.lstrip('/')}: {violation.message}" for violation in found)
    return InvalidArgumentsError(f"Invalid arguments for {kind} {name!r}: {told}", violations=found)


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
