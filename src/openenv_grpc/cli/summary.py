"""What `info` tells people of an environment: the schemas as fields with their types."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from openenv_grpc.client.catalog import EnvironmentDescription
from openenv_grpc.types import JsonValue

Schema = Mapping[str, Any]

TOOL_ACTIONS = frozenset({"CallToolAction", "ListToolsAction"})
"""Actions that every environment with tools takes besides its own."""
UNINTERESTING = frozenset({"metadata"})
"""Fields that every action and observation has."""
DEPTH = 3
"""How far types within types are told; some have themselves within."""


def summary(described: EnvironmentDescription, url: str) -> dict[str, JsonValue]:
    """Says in short what `described` says, which was asked of `url`. Leaves out what is empty."""
    told: dict[str, JsonValue] = {
        "name": described.name,
        "description": described.description,
        "version": described.version,
        "mode": described.mode,
        "sessions": _sessions(described),
        "doors": dict(described.doors),
        "workers": list(described.workers),
        "action": _actions(described.schemas.get("action")),
        "observation": _of_document(described.schemas.get("observation")),
    }
    if described.capabilities.get("tools"):
        told["tools"] = f"openenv-grpc call {url} tools --env {described.name}"
    return {key: value for key, value in told.items() if value not in ("", None, {}, [])}


def _sessions(described: EnvironmentDescription) -> str:
    if described.session_limit is None:
        return ""
    return f"{described.session_count or 0} of {described.session_limit}"


def _actions(schema: JsonValue) -> dict[str, JsonValue]:
    """Describes the fields of an action; of several kinds of actions each under its name."""
    if not isinstance(schema, Mapping):
        return {}
    found = schema.get("$defs", {})
    kinds = [_resolved(kind, found) for kind in schema.get("anyOf", schema.get("oneOf", [schema]))]
    own = [kind for kind in kinds if kind.get("title") not in TOOL_ACTIONS] or kinds
    if len(own) == 1:
        return _fields(own[0], found)
    return {str(kind.get("title", "?")): _fields(kind, found) for kind in own}


def _of_document(schema: JsonValue) -> dict[str, JsonValue]:
    return _fields(schema, schema.get("$defs", {})) if isinstance(schema, Mapping) else {}


def _fields(schema: Schema, found: Schema) -> dict[str, JsonValue]:
    required = schema.get("required", ())
    return {
        name: _field(field, found, required=name in required)
        for name, field in schema.get("properties", {}).items()
        if name not in UNINTERESTING and isinstance(field, Mapping)
    }


def _field(schema: Schema, found: Schema, *, required: bool) -> str:
    """Writes a field as `integer = 1 (what it is)`."""
    told = _type(schema, found)
    if "default" in schema and not required:
        told += f" = {json.dumps(schema['default'], ensure_ascii=False)}"
    about = " ".join(str(schema.get("description", "")).split())
    return f"{told} ({about})" if about else told


def _type(schema: JsonValue, found: Schema, depth: int = 0) -> str:
    """Names a type as people would: `integer or null`, `array of string`, `"up" or "down"`."""
    if not isinstance(schema, Mapping) or depth > DEPTH:
        return "anything"
    schema = _resolved(schema, found)
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(_type(each, found, depth + 1) for each in schema[key])
    if "const" in schema:
        return json.dumps(schema["const"], ensure_ascii=False)
    if "enum" in schema:
        return " or ".join(json.dumps(each, ensure_ascii=False) for each in schema["enum"])
    named = schema.get("type", "anything")
    told = " or ".join(named) if isinstance(named, list) else str(named)
    return f"{told} of {_type(schema['items'], found, depth + 1)}" if "items" in schema else told


def _resolved(schema: Schema, found: Schema) -> Schema:
    """Follows a reference into the schema's definitions, by one step."""
    reference = str(schema.get("$ref", ""))
    target = found.get(reference.removeprefix("#/$defs/"))
    return target if isinstance(target, Mapping) else schema
