"""Refuses an action before it is sent, by the JSON Schema that the server tells."""

from __future__ import annotations

from collections.abc import Iterable

import jsonschema
from jsonschema.exceptions import ValidationError
from referencing import Registry

from openenv_grpc.errors import InvalidActionError, ProtocolViolationError, Violation
from openenv_grpc.serialization import json_pointer
from openenv_grpc.types import JsonValue


def check_action(action: JsonValue, schema: JsonValue) -> None:
    """Checks an action.

    Raises:
        InvalidActionError: it does not fit.
        ProtocolViolationError: the server's schema is none.
    """
    try:
        # An empty registry: a server's schema must not have us fetch anything.
        validator = jsonschema.Draft202012Validator(schema, registry=Registry())
        errors = list(_own_errors(validator.iter_errors(action)))
    except Exception as error:  # a schema from afar may break the library anywhere
        raise ProtocolViolationError(
            f"the server's schema of an action is no JSON Schema: {error}"
        ) from error
    if not errors:
        return
    violations = [
        Violation(
            path=json_pointer(list(error.absolute_path)),
            type=str(error.validator),
            message=error.message,
        )
        for error in errors
    ]
    told = "; ".join(
        f"{violation.path}: {violation.message}" if violation.path else violation.message
        for violation in violations
    )
    raise InvalidActionError(
        f"the action does not fit the environment: {told}. `openenv-grpc info` shows its fields",
        violations=violations,
    )


def _own_errors(errors: Iterable[ValidationError]) -> Iterable[ValidationError]:
    """Tells, of an action that may be of several classes, what is wrong with it as the one meant.

    That is the one whose `type` it has, or else the first: the environment's own.
    """
    for error in errors:
        if error.validator not in ("anyOf", "oneOf") or error.absolute_path:
            yield error
            continue
        branches: dict[int | str, list[ValidationError]] = {}
        for part in error.context:
            branches.setdefault(part.schema_path[0], []).append(part)
        meant = [parts for parts in branches.values() if not any(map(_is_of_another, parts))]
        yield from meant[0] if meant else [error]


def _is_of_another(error: ValidationError) -> bool:
    """Tells whether an error says that an action's `type` is not the class's."""
    unexpected = error.validator == "additionalProperties" and "'type'" in error.message
    return unexpected or error.validator == "const"
