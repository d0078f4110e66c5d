"""What each reason becomes on the bridge's doors: a `/ws` code, a JSON-RPC code, an HTTP status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from openenv_grpc.environment_spec import EnvironmentSpec
from openenv_grpc.errors import OpenEnvError, Reason
from openenv_grpc.serialization import error_details
from openenv_grpc.types import JsonValue

EXECUTION_ERROR = "EXECUTION_ERROR"
VALIDATION_ERROR = "VALIDATION_ERROR"
SESSION_ERROR = "SESSION_ERROR"
FACTORY_ERROR = "FACTORY_ERROR"
CAPACITY_REACHED = "CAPACITY_REACHED"

INVALID_REQUEST = -32600
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
SERVER_ERROR = -32000

CLOSING_CODES = frozenset({SESSION_ERROR, FACTORY_ERROR, CAPACITY_REACHED})
"""After an error frame with one of these the socket is closed."""


@dataclass(frozen=True, slots=True)
class Projection:
    """One reason on three doors."""

    ws_code: str
    rpc_code: int
    http_status: int


PROJECTIONS: Mapping[Reason, Projection] = {
    Reason.INVALID_REQUEST: Projection(VALIDATION_ERROR, INVALID_REQUEST, 422),
    Reason.INVALID_ACTION: Projection(VALIDATION_ERROR, INVALID_PARAMS, 422),
    Reason.MESSAGE_TOO_LARGE: Projection(EXECUTION_ERROR, INVALID_REQUEST, 413),
    Reason.OUTCOME_TOO_LARGE: Projection(EXECUTION_ERROR, INTERNAL_ERROR, 500),
    Reason.UNSERIALIZABLE_RESULT: Projection(EXECUTION_ERROR, INTERNAL_ERROR, 500),
    Reason.ENVIRONMENT_NOT_FOUND: Projection(SESSION_ERROR, INVALID_PARAMS, 404),
    Reason.CONSTRUCTION_FAILED: Projection(FACTORY_ERROR, SERVER_ERROR, 500),
    Reason.ENVIRONMENT_FAILED: Projection(EXECUTION_ERROR, INTERNAL_ERROR, 500),
    Reason.ENVIRONMENT_CRASHED: Projection(SESSION_ERROR, SERVER_ERROR, 500),
    Reason.EPISODE_NOT_STARTED: Projection(EXECUTION_ERROR, INTERNAL_ERROR, 409),
    Reason.EPISODE_OVER: Projection(EXECUTION_ERROR, INTERNAL_ERROR, 409),
    Reason.CAPACITY_REACHED: Projection(CAPACITY_REACHED, SERVER_ERROR, 503),
    Reason.SESSION_NOT_FOUND: Projection(SESSION_ERROR, INVALID_PARAMS, 404),
    Reason.SESSION_CLOSED: Projection(SESSION_ERROR, SERVER_ERROR, 404),
    Reason.SESSION_EXPIRED: Projection(SESSION_ERROR, SERVER_ERROR, 404),
    Reason.SESSION_TAKEN_OVER: Projection(SESSION_ERROR, SERVER_ERROR, 409),
    Reason.OUT_OF_ORDER: Projection(EXECUTION_ERROR, INVALID_REQUEST, 409),
    Reason.REQUEST_CONFLICT: Projection(EXECUTION_ERROR, INVALID_REQUEST, 409),
    Reason.OUTCOME_FORGOTTEN: Projection(EXECUTION_ERROR, INVALID_REQUEST, 409),
    Reason.TOO_MANY_OPERATIONS: Projection(EXECUTION_ERROR, SERVER_ERROR, 429),
    Reason.DEADLINE_EXCEEDED: Projection(EXECUTION_ERROR, INTERNAL_ERROR, 504),
    Reason.CANCELLED: Projection(EXECUTION_ERROR, INTERNAL_ERROR, 499),
    Reason.DRAINING: Projection(EXECUTION_ERROR, SERVER_ERROR, 503),
    Reason.UNAVAILABLE: Projection(SESSION_ERROR, SERVER_ERROR, 503),
    Reason.NOT_SUPPORTED: Projection(EXECUTION_ERROR, INTERNAL_ERROR, 501),
    Reason.MODE_FORBIDS: Projection(EXECUTION_ERROR, INTERNAL_ERROR, 404),
    Reason.UNAUTHENTICATED: Projection(SESSION_ERROR, SERVER_ERROR, 401),
    Reason.PERMISSION_DENIED: Projection(SESSION_ERROR, SERVER_ERROR, 403),
    # An unknown tool and bad arguments are internal errors in the reference's dialect.
    Reason.TOOL_NOT_FOUND: Projection(EXECUTION_ERROR, INTERNAL_ERROR, 404),
    Reason.INVALID_ARGUMENTS: Projection(EXECUTION_ERROR, INTERNAL_ERROR, 422),
    Reason.TASK_NOT_FOUND: Projection(EXECUTION_ERROR, INTERNAL_ERROR, 400),
    Reason.SNAPSHOT_NOT_FOUND: Projection(EXECUTION_ERROR, INTERNAL_ERROR, 404),
    Reason.PROTOCOL_VIOLATION: Projection(SESSION_ERROR, INVALID_REQUEST, 400),
    Reason.INTERNAL: Projection(EXECUTION_ERROR, INTERNAL_ERROR, 500),
    Reason.MISSING_DEPENDENCY: Projection(EXECUTION_ERROR, INTERNAL_ERROR, 501),
    Reason.RESOURCE_NOT_FOUND: Projection(EXECUTION_ERROR, INVALID_PARAMS, 404),
    Reason.CLIENT_CAPABILITY_MISSING: Projection(EXECUTION_ERROR, INTERNAL_ERROR, 501),
}


def ws_code(error: OpenEnvError) -> str:
    """Returns the code of an error frame."""
    code = PROJECTIONS[error.reason].ws_code
    if error.session_lost and code not in CLOSING_CODES:
        return SESSION_ERROR
    return code


def message(error: OpenEnvError, spec: EnvironmentSpec | None) -> str:
    """Returns the text that the reference's clients know for an error."""
    match error.reason:
        case Reason.CAPACITY_REACHED if "max_sessions" in error.metadata:
            facts = error.metadata
            return (
                f"Server at capacity: {facts['active_sessions']}/{facts['max_sessions']} sessions "
                "active. Cannot accept new connections."
            )
        case Reason.CONSTRUCTION_FAILED if spec is not None:
            return f"Environment factory '{spec.factory_name}' failed to create instance."
        case Reason.ENVIRONMENT_FAILED:
            return error.metadata.get("exception_text", error.message)
        case _:
            return error.message


def facts(error: OpenEnvError, spec: EnvironmentSpec | None) -> dict[str, JsonValue]:
    """Returns what stands beside the message of a refusal."""
    match error.reason:
        case Reason.CAPACITY_REACHED:
            names = ("active_sessions", "max_sessions")
            return {name: int(error.metadata[name]) for name in names if name in error.metadata}
        case Reason.CONSTRUCTION_FAILED if spec is not None:
            return {"factory_name": spec.factory_name}
        case _:
            return {}


def details(error: OpenEnvError) -> list[dict[str, JsonValue]]:
    """Returns pydantic's list of what was wrong with the input."""
    if isinstance(error.__cause__, ValidationError):
        return error_details(error.__cause__)
    if error.violations:
        return [
            {"type": broken.type, "loc": broken.path.split("/")[1:], "msg": broken.message}
            for broken in error.violations
        ]
    return [{"type": "value_error", "loc": [], "msg": error.message}]
