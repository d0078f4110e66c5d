"""Forms that a user fills in: flat models, and their schemas as MCP allows them."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel

from openenv_grpc.types import JsonValue

_SIMPLE = ("string", "number", "integer", "boolean")


def form_schema(form: type[BaseModel]) -> dict[str, JsonValue]:
    """Describes a form.

    Raises:
        TypeError: it has a field that is neither text, a number, a boolean nor a choice.
    """
    schema = form.model_json_schema()
    named = schema.get("$defs", {})
    fields = {
        name: _field(form, name, described, named)
        for name, described in schema.get("properties", {}).items()
    }
    required = {"required": schema["required"]} if schema.get("required") else {}
    return {"type": "object", "properties": fields, **required}


def _field(
    form: type[BaseModel], name: str, described: JsonValue, named: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    found = _plain(described, named)
    kind = found.get("type")
    if kind == "array":
        found["items"] = items = _plain(found.get("items", {}), named)
        fits = "enum" in items or "anyOf" in items
    else:
        fits = kind in _SIMPLE
    if not fits:
        raise TypeError(
            f"{form.__name__}.{name} cannot be asked for in a form: its fields are text, numbers, "
            "booleans, choices, and lists of choices"
        )
    return found


def _plain(described: JsonValue, named: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Resolves references and alternatives to nothing, and writes constants as choices."""
    found = dict(described)
    if "$ref" in found:
        target = named[found.pop("$ref").removeprefix("#/$defs/")]
        found = {**target, **found}
    match found.get("anyOf"):
        case [{**kept}, {"type": "null"}]:
            del found["anyOf"]
            found = _plain({**kept, **found}, named)
    if "const" in found:
        found["enum"] = [found.pop("const")]
    if found.get("default", 0) is None:
        del found["default"]
    return found
