"""What a server's environment is to Gymnasium: spaces, and values that are in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openenv_grpc.client.catalog import EnvironmentDescription
from openenv_grpc.errors import ConfigurationError
from openenv_grpc.gymnasium.descriptions import KEYWORD, read_space
from openenv_grpc.gymnasium.forms import Form, Space, dict_form, form_of_space
from openenv_grpc.gymnasium.schemas import BESIDE, fields_of
from openenv_grpc.gymnasium.served import ACTION, OBSERVATION
from openenv_grpc.types import JsonValue


@dataclass(frozen=True, slots=True)
class Interface:
    """The spaces of an environment. `field` names the one field that holds the value, if so."""

    action: Form
    action_field: str | None
    observation: Form
    observation_field: str | None

    @property
    def action_space(self) -> Space:
        """The space of actions."""
        return self.action.space

    @property
    def observation_space(self) -> Space:
        """The space of observations."""
        return self.observation.space

    def encode(self, action: Any) -> Mapping[str, JsonValue]:
        """Makes an action that can be sent."""
        encoded = self.action.encode(action)
        if self.action_field is None:
            fields: dict[str, JsonValue] = encoded
            return fields
        return {self.action_field: encoded}

    def decode(self, fields: Mapping[str, Any]) -> Any:
        """Makes a value of the space of observations."""
        field = self.observation_field
        return self.observation.decode(fields if field is None else fields[field])

    def info(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Returns what an observation tells besides."""
        field = self.observation_field
        inside: Any = self.observation.space.keys() if field is None else (field,)  # type: ignore[attr-defined]  # a Dict
        rest = {name: fields[name] for name in fields if name not in inside and name not in BESIDE}
        told = rest.pop("info", None)
        return {**rest, **told} if isinstance(told, dict) else rest


def interface_of(
    description: EnvironmentDescription, *, action_field: str | None, observation_field: str | None
) -> Interface:
    """Reads the spaces off an environment's schemas.

    Raises:
        ConfigurationError: there are none for them.
    """
    name = description.name
    action, action_field = _form(description.schemas.get("action", {}), ACTION, action_field, name)
    observation, observation_field = _form(
        description.schemas.get("observation", {}), OBSERVATION, observation_field, name
    )
    return Interface(action, action_field, observation, observation_field)


def _form(
    schema: Mapping[str, JsonValue], kind: str, field: str | None, name: str
) -> tuple[Form, str | None]:
    if field is None and KEYWORD in schema:  # one of Gymnasium's own
        return form_of_space(read_space(schema[KEYWORD])), kind
    forms, left_out = fields_of(schema, schema)
    if field is not None:
        if field not in forms:
            raise ConfigurationError(
                f"the {kind} of {name} has no field {field!r} that has a space; these have one: "
                + (", ".join(forms) or "none")
            )
        return forms[field], field
    needed = set(left_out) & set(schema.get("required", ())) if kind == ACTION else set()
    if needed or not forms:
        raise ConfigurationError(
            f"the {kind} of {name} has no space: Gymnasium has none for "
            f"{', '.join(sorted(needed) or left_out) or 'a class without fields'}"
        )
    return dict_form(forms), None
