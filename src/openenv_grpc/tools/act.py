"""The one tool of an environment that has none of its own: it applies an action."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from pydantic import TypeAdapter

from openenv_grpc.errors import InvalidActionError, ToolNotFoundError, Violation
from openenv_grpc.serialization import (
    BESIDE,
    ActionReader,
    json_schema,
    model_fields,
    to_plain,
)
from openenv_grpc.tools.answers import ToolAnswer, ToolInfo, content_block
from openenv_grpc.tools.signatures import invalid_arguments
from openenv_grpc.types import Action, JsonValue

ACT = "act"
"""Its name."""
_WRAPPED = "action"


class ActTool:
    """Applies an action whose fields are the arguments.

    Where the actions are a union, or anything else than one object, `action` is the one argument:
    models' vendors take no union at the top of a schema.
    """

    def __init__(self, reader: ActionReader, *, environment: str) -> None:
        self._reader = reader
        self._environment = environment

    @cached_property
    def info(self) -> ToolInfo:
        """Describes the tool."""
        schema = self._schema
        described = schema.get("description", "")
        told = f"Takes one action in {self._environment}, and returns what is observed then."
        return ToolInfo(
            name=ACT,
            description=f"{told}\n\n{described}" if described else told,
            input_schema=_wrapped(schema) if self._wraps else _undescribed(schema),
        )

    @cached_property
    def _schema(self) -> dict[str, JsonValue]:
        schema = copy.deepcopy(self._reader.schema())
        for part in (schema, *schema.get("$defs", {}).values()):
            if part.get("properties", {}).get("metadata") == _METADATA:
                del part["properties"]["metadata"]  # a trainer's, and noise for a model
        return schema

    @cached_property
    def _wraps(self) -> bool:
        return self._schema.get("type") != "object" or "properties" not in self._schema

    def read(self, name: str, arguments: Mapping[str, JsonValue]) -> Any:
        """Makes an action of the arguments.

        Raises:
            ToolNotFoundError: the tool has another name.
            InvalidArgumentsError: the arguments do not fit.
        """
        if name != ACT:
            raise ToolNotFoundError(f"Unknown tool: {name!r}; there is one, {ACT!r}")
        if not self._wraps:
            return self._from_value(dict(arguments), path="")
        found = [
            Violation(path=f"/{key}", type="unexpected_argument", message="Unexpected argument")
            for key in arguments
            if key != _WRAPPED
        ]
        if _WRAPPED not in arguments:
            missing = Violation(path=f"/{_WRAPPED}", type="missing", message="Field required")
            found.insert(0, missing)
        if found:
            raise invalid_arguments(ACT, tuple(found))
        return self._from_value(arguments[_WRAPPED], path=f"/{_WRAPPED}")

    def _from_value(self, value: JsonValue, *, path: str) -> Any:
        try:
            return self._reader.from_value(value)
        except InvalidActionError as error:
            found = (
                Violation(path=path + each.path, type=each.type, message=each.message)
                for each in error.violations
            )
            raise invalid_arguments(ACT, tuple(found)) from error

    def answer(self, observation: Any, *, done: bool) -> ToolAnswer:
        """Makes the answer of what was observed: its fields and `done`, without the reward.

        Raises:
            UnserializableResultError: the observation cannot become JSON.
        """
        fields = {**model_fields(observation, beside=BESIDE), "done": done}
        if not fields.get("metadata", True):
            del fields["metadata"]
        plain = to_plain(fields)
        return ToolAnswer(content=[content_block(plain)], structured_content=plain, data=plain)


def _wrapped(schema: dict[str, JsonValue]) -> dict[str, JsonValue]:
    inner = {name: part for name, part in schema.items() if name != "$defs"}
    wrapped: dict[str, JsonValue] = {
        "type": "object",
        "properties": {_WRAPPED: inner},
        "required": [_WRAPPED],
        "additionalProperties": False,
    }
    return {**wrapped, "$defs": schema["$defs"]} if "$defs" in schema else wrapped


def _undescribed(schema: dict[str, JsonValue]) -> dict[str, JsonValue]:
    return {name: part for name, part in schema.items() if name not in ("description", "title")}


_METADATA = json_schema(TypeAdapter(Action))["properties"]["metadata"]
"""How the base class of actions describes its own field."""
