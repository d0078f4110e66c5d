"""Between an environment's own classes and the mappings that travel."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, get_args, get_origin

from pydantic import BaseModel, RootModel, TypeAdapter, ValidationError

from openenv_grpc.errors import (
    Effect,
    InvalidRequestError,
    NotSupportedError,
    ProtocolViolationError,
)
from openenv_grpc.serialization import model_type, violations
from openenv_grpc.types import JsonValue


def parameters(client: type, generic: type) -> tuple[Any, ...]:
    """Returns the classes that a client gives to its generic base; none if they are open."""
    for base in client.__dict__.get("__orig_bases__", ()):
        origin = get_origin(base)
        if isinstance(origin, type) and issubclass(origin, generic):
            arguments = get_args(base)
            if len(arguments) == 3 and all(map(_is_concrete, arguments)):
                return arguments
    return ()


def _is_concrete(argument: object) -> bool:
    return isinstance(argument, type) or model_type(argument)


def action_payload(action: object) -> Mapping[str, JsonValue]:
    """Returns what an action has to say: a mapping, a model's fields, an object's attributes.

    Raises:
        InvalidRequestError: it is a plain value.
    """
    if type(action) is dict:  # as most are; other questions take longer
        return action
    if isinstance(action, BaseModel):
        return action.model_dump()
    if isinstance(action, Mapping):
        return action
    if dataclasses.is_dataclass(action) and not isinstance(action, type):
        return dataclasses.asdict(action)
    try:
        return vars(action)
    except TypeError as error:
        raise InvalidRequestError(
            f"an action is a mapping, a model or an object with attributes, not {action!r}"
        ) from error


class ObservationReader:
    """Makes observations of one class."""

    def __init__(self, observation_type: Any) -> None:
        self._adapter: TypeAdapter[Any] = TypeAdapter(observation_type)
        self._name = str(observation_type)
        self._fields: frozenset[str] | None = None
        if isinstance(observation_type, type) and issubclass(observation_type, BaseModel):
            self._name = observation_type.__name__
            if not issubclass(observation_type, RootModel):  # which may stand for several classes
                self._fields = frozenset(observation_type.model_fields)

    def read(self, payload: Mapping[str, Any]) -> Any:
        """Makes one, with the reward and the end put back that travel beside it.

        Raises:
            ProtocolViolationError: the server's observations are of another class.
        """
        fields = dict(payload.get("observation") or {})
        for name in ("reward", "done"):
            if self._fields is None or name in self._fields:
                fields.setdefault(name, payload.get(name))
        if payload.get("truncated") and self._fields is not None and "truncated" in self._fields:
            fields.setdefault("truncated", True)
        return validated(self._adapter, fields, what=self._name)


def validated(adapter: TypeAdapter[Any], value: object, *, what: str) -> Any:
    """Makes an object of a class from what a server sent.

    Raises:
        ProtocolViolationError: it does not fit.
    """
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        found = violations(error)
        raise ProtocolViolationError(
            f"what the server sent is no {what}: {found[0].path}: {found[0].message}. Is this the "
            "client of that environment, and of its version?",
            effect=Effect.DONE,
            violations=found,
        ) from error


def unnamed(client: type, attribute: str, hook: str) -> NotSupportedError:
    """Makes the error for a client that knows neither a class nor how to read it otherwise."""
    return NotSupportedError(
        f"{client.__name__} names no {attribute} and has no {hook}: derive it from "
        "EnvClient[YourAction, YourObservation, YourState], or use GenericEnvClient"
    )
