"""Spaces for environments that know nothing of Gymnasium: read off their JSON Schemas."""

from __future__ import annotations

import string
from collections.abc import Mapping
from typing import Any

import numpy
from gymnasium import spaces

from openenv_grpc import arrays
from openenv_grpc.gymnasium.descriptions import KEYWORD, read_space
from openenv_grpc.gymnasium.forms import Form, array_form, dict_form, form_of_space
from openenv_grpc.types import JsonValue

TEXT_LENGTH = 4096
"""Longest text of a string whose schema names no `maxLength`."""

BESIDE = frozenset({"metadata", "done", "reward", "truncated"})
"""Fields of an action or observation that belong to no space."""

Schema = Mapping[str, JsonValue]


def form_of_schema(schema: Schema, root: Schema) -> Form | None:
    """Returns the space of what a schema describes; `None` if there is none."""
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        return form_of_schema(root.get("$defs", {}).get(name, {}), root)
    if KEYWORD in schema:
        return form_of_space(read_space(schema[KEYWORD]))
    if arrays.KEYWORD in schema:
        return _array(schema[arrays.KEYWORD])
    if "enum" in schema or "const" in schema:
        return _choice(schema.get("enum", [schema.get("const")]))
    match schema.get("type"):
        case "boolean":
            return Form(space=spaces.Discrete(2), encode=bool, decode=numpy.int64)
        case "integer" | "number" as kind:
            return _number(schema, integral=kind == "integer")
        case "string" if "format" not in schema:
            return _text(schema)
        case "array":
            return _list(schema, root)
        case "object" if schema.get("properties"):
            forms, left_out = fields_of(schema, root)
            return None if left_out else dict_form(forms)
        case _:
            return None


def fields_of(schema: Schema, root: Schema) -> tuple[dict[str, Form], list[str]]:
    """Returns the spaces of an object's fields, and the names of those that have none."""
    forms: dict[str, Form] = {}
    left_out: list[str] = []
    for name, field in schema.get("properties", {}).items():
        if name in BESIDE:
            continue
        form = form_of_schema(field, root)
        if form is None:
            left_out.append(name)
        else:
            forms[name] = form
    return forms, left_out


def _array(described: JsonValue) -> Form | None:
    dtype, shape = described["dtype"], described["shape"]
    if shape is None or None in shape or dtype == "bfloat16":
        return None
    if dtype == "bool":
        return array_form(spaces.MultiBinary(shape), dtype=bool)
    low, high = arrays.integer_range(dtype) or (-numpy.inf, numpy.inf)
    return array_form(spaces.Box(low, high, tuple(shape), numpy.dtype(dtype).type))


def _choice(values: list[JsonValue]) -> Form:
    return Form(
        space=spaces.Discrete(len(values)),
        encode=lambda index: values[int(index)],
        decode=lambda value: numpy.int64(values.index(value)),
    )


def _bounds(schema: Schema, *, step: float) -> tuple[Any, Any]:
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    if low is not None and "minimum" not in schema:
        low = low + step
    if high is not None and "maximum" not in schema:
        high = high - step
    return low, high


def _number(schema: Schema, *, integral: bool) -> Form:
    low, high = _bounds(schema, step=1 if integral else 0)
    if integral and low is not None and high is not None:
        space = spaces.Discrete(int(high) - int(low) + 1, start=int(low))
        return Form(space=space, encode=int, decode=numpy.int64)
    if integral:
        least, greatest = numpy.iinfo(numpy.int64).min, numpy.iinfo(numpy.int64).max
        return _scalar(least if low is None else low, greatest if high is None else high, int)
    return _scalar(-numpy.inf if low is None else low, numpy.inf if high is None else high, float)


def _scalar(low: Any, high: Any, kind: type[int] | type[float]) -> Form:
    dtype = numpy.int64 if kind is int else numpy.float64
    return Form(
        space=spaces.Box(low, high, (), dtype),
        encode=lambda value: kind(numpy.asarray(value).item()),
        decode=lambda value: numpy.array(value, dtype),
    )


def _text(schema: Schema) -> Form:
    space = spaces.Text(
        schema.get("maxLength", TEXT_LENGTH),
        min_length=schema.get("minLength", 0),
        charset=string.printable,
    )
    return Form(space=space, encode=str, decode=str)


def _list(schema: Schema, root: Schema) -> Form | None:
    """Returns the space of a list of a fixed number of numbers."""
    length = schema.get("minItems")
    if length is None or length != schema.get("maxItems"):
        return None
    inner = form_of_schema(schema.get("items", {}), root)
    if inner is None or not isinstance(inner.space, spaces.Box | spaces.Discrete):
        return None
    low: Any
    high: Any
    if isinstance(inner.space, spaces.Box):
        low, high = inner.space.low, inner.space.high
    else:
        low = numpy.int64(inner.space.start)
        high = low + inner.space.n - 1
    dtype = numpy.dtype(inner.space.dtype)
    shape = (length, *(inner.space.shape or ()))
    space = spaces.Box(
        numpy.broadcast_to(low, shape), numpy.broadcast_to(high, shape), shape, dtype.type
    )
    return Form(
        space=space,
        encode=lambda value: numpy.asarray(value).tolist(),
        decode=lambda value: numpy.array(value, dtype),
    )
