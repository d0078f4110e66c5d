"""Refuses an action before it is sent, by the JSON Schema that the server tells."""

from __future__ import annotations

import jsonschema
from jsonschema.exceptions import best_match
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
        error = best_match(validator.iter_errors(action))
    except (jsonschema.SchemaError, TypeError, AttributeError) as broken:
        raise ProtocolViolationError(
            f"the server's schema of an action is no JSON Schema: {broken}"
        ) from broken
    if error is None:
        return
    path = json_pointer(list(error.absolute_path))
    where = f" at {path}" if path else ""
    raise InvalidActionError(
        f"the action does not fit the environment{where}: {error.message}; see `info`",
        violations=[Violation(path=path, type=str(error.validator), message=error.message)],
    )
