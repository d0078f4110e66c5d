"""Actions in, observations out: JSON and arrays to pydantic models and back, for every door."""

from __future__ import annotations

import types as python_types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import PydanticSerializationError, from_json, to_json, to_jsonable_python

from openenv_grpc.errors import (
    Effect,
    InvalidActionError,
    InvalidRequestError,
    UnserializableResultError,
    Violation,
)
from openenv_grpc.types import JsonValue

BESIDE = {"reward", "done"}
"""Fields of an observation that travel beside it, not in it."""

_NOTHING: set[str] = set()

NonFinite = Literal["null", "strings"]
"""How JSON carries NaN and the infinities: the reference's way, or ours."""


def parse_json(text: str | bytes, *, what: str = "payload") -> JsonValue:
    """Reads JSON.

    Raises:
        InvalidRequestError: it is none, or is nested too deeply.
    """
    try:
        return from_json(text)
    except ValueError as error:
        raise InvalidRequestError(f"the {what} is not valid JSON: {error}") from error


def parse_json_object(text: str | bytes, *, what: str = "payload") -> dict[str, JsonValue]:
    """Reads a JSON object.

    Raises:
        InvalidRequestError: it is not valid JSON, or another kind of value.
    """
    value = parse_json(text, what=what)
    if not isinstance(value, dict):
        raise InvalidRequestError(f"the {what} has to be a JSON object, not {json_kind(value)}")
    return value


def json_kind(value: JsonValue) -> str:
    """Names the kind of a JSON value, for messages."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
        case _:
            return "an object"


def dump_json(value: object, *, non_finite: NonFinite = "null") -> bytes:
    """Writes compact JSON. Arrays and numpy scalars become nested lists and numbers.

    Raises:
        UnserializableResultError: the value holds something that JSON cannot carry.
    """
    mode: Literal["null", "strings"] = non_finite
    try:
        return to_json(value, inf_nan_mode=mode, fallback=_array_as_list)
    except (PydanticSerializationError, ValueError, TypeError) as error:
        raise UnserializableResultError(str(error), effect=Effect.DONE) from error


def to_plain(value: object) -> JsonValue:
    """Turns a value into what JSON can carry, as Python objects. NaN and infinities stay.

    Raises:
        UnserializableResultError: the value holds something that JSON cannot carry.
    """
    try:
        return to_jsonable_python(value, fallback=_array_as_list)
    except (PydanticSerializationError, ValueError, TypeError) as error:
        raise UnserializableResultError(str(error), effect=Effect.DONE) from error


def _array_as_list(value: Any) -> object:
    """Turns what looks like an array into lists; pydantic calls it for what it does not know."""
    convert: Callable[[], object] | None = getattr(value, "tolist", None)
    if convert is not None:
        return convert()
    if getattr(value, "__array__", None) is not None:
        return value.__array__().tolist()
    raise PydanticSerializationError(f"Unable to serialize unknown type: {type(value)}")


def model_fields(
    value: object,
    *,
    beside: set[str] = _NOTHING,
    context: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Returns a model's fields as Python values, without those that travel `beside` it.

    Doors that have only JSON give `arrays.FOR_JSON` as `context`.

    Raises:
        UnserializableResultError: the value is no pydantic model, nor anything that dumps like one.
    """
    if isinstance(value, BaseModel):
        dumped: dict[str, Any] = value.__pydantic_serializer__.to_python(
            value, exclude=beside, context=context
        )
        return dumped
    try:
        dumped = value.model_dump()  # type: ignore[attr-defined]  # foreign models
    except AttributeError as error:
        raise UnserializableResultError(
            f"the environment returned a value of type {type(value).__name__}; reset and step "
            f"return an Observation, and state a State, or another pydantic model ({error})",
            effect=Effect.DONE,
        ) from error
    return {name: field for name, field in dumped.items() if name not in beside}


def error_details(error: ValidationError, *, url: bool = True) -> list[dict[str, JsonValue]]:
    """Returns pydantic's list of what was wrong, such that JSON can carry it."""
    details: list[dict[str, JsonValue]] = to_jsonable_python(
        error.errors(include_url=url), fallback=str
    )
    return details


def violations(error: ValidationError) -> tuple[Violation, ...]:
    """Turns pydantic's list of what was wrong into ours."""
    return tuple(
        Violation(path=json_pointer(entry["loc"]), type=entry["type"], message=entry["msg"])
        for entry in error.errors(include_url=False, include_input=False, include_context=False)
    )


def json_pointer(path: Sequence[str | int]) -> str:
    """Writes a path as a JSON pointer (RFC 6901)."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


class _Schema(GenerateJsonSchema):
    """Describes fields that JSON Schema has no word for, such as arrays, as anything."""

    def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> JsonSchemaValue:
        return {}


def json_schema(adapter: TypeAdapter[Any]) -> dict[str, JsonValue]:
    """Returns the JSON Schema of what an adapter reads."""
    return adapter.json_schema(schema_generator=_Schema)


class ActionReader:
    """Reads actions of one environment.

    An environment whose action class is the bare `Action` or one of the MCP action classes also
    takes `{"type": "list_tools"}` and `{"type": "call_tool", …}`, and so does one that has tools
    and an action class of its own, whose schema then tells of them (`declared`).
    """

    def __init__(
        self,
        action_type: Any,
        *,
        by_type: Mapping[str, type[BaseModel]] | None = None,
        declared: bool = False,
    ) -> None:
        self.action_type = action_type
        self._declared = (*(by_type or {}).values(),) if declared else ()
        self._adapter: TypeAdapter[Any] = TypeAdapter(action_type)
        self._by_type = {
            name: TypeAdapter[Any](model).validator for name, model in (by_type or {}).items()
        }
        self._validate_json = self._adapter.validator.validate_json  # without a call in between

    def from_json(self, text: str | bytes) -> Any:
        """Reads an action from JSON text.

        Raises:
            InvalidActionError: it does not fit. `__cause__` is pydantic's error.
            InvalidRequestError: it is no JSON.
        """
        if self._by_type:
            return self.from_value(parse_json(text, what="action"))
        try:
            return self._validate_json(text)
        except ValidationError as error:
            if error.errors(include_url=False, include_input=False)[0]["type"] == "json_invalid":
                raise InvalidRequestError(f"the action is not valid JSON: {error}") from error
            raise self._refused(error) from error

    def from_value(self, value: JsonValue) -> Any:
        """Reads an action from a parsed value.

        Raises:
            InvalidActionError: it does not fit. `__cause__` is pydantic's error.
        """
        validator = self._adapter.validator
        if self._by_type and isinstance(value, dict):
            named = value.get("type")
            if isinstance(named, str):
                validator = self._by_type.get(named, validator)
        try:
            return validator.validate_python(value)
        except ValidationError as error:
            raise self._refused(error) from error

    def _refused(self, error: ValidationError) -> InvalidActionError:
        found = violations(error)
        first = found[0]
        where = f" at {first.path}" if first.path else ""
        return InvalidActionError(
            f"the action was refused{where}: {first.message}", violations=found
        )

    def schema(self) -> dict[str, JsonValue]:
        """Returns the JSON Schema of an action."""
        if not self._declared:
            return json_schema(self._adapter)
        either: Any = Union[(self.action_type, *self._declared)]
        return json_schema(TypeAdapter[Any](either))


def model_type(annotation: object) -> bool:
    """Tells whether an annotation is a pydantic model, or a union of some."""
    if isinstance(annotation, type):
        return issubclass(annotation, BaseModel)
    if get_origin(annotation) in (Union, python_types.UnionType):
        return all(model_type(part) for part in get_args(annotation))
    return False
