"""Every error of the project, once: what went wrong, and whether anything happened."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


class _NamedNumber(enum.IntEnum):
    """A number that goes by its name wherever it is printed."""

    def __str__(self) -> str:
        return self.name

    def __format__(self, specification: str) -> str:
        return format(self.name, specification)


class Reason(_NamedNumber):
    """What went wrong. Names and numbers are those of the proto's `Reason`."""

    INVALID_REQUEST = 1
    INVALID_ACTION = 2
    MESSAGE_TOO_LARGE = 3
    OUTCOME_TOO_LARGE = 4
    UNSERIALIZABLE_RESULT = 5
    ENVIRONMENT_NOT_FOUND = 6
    CONSTRUCTION_FAILED = 7
    ENVIRONMENT_FAILED = 8
    ENVIRONMENT_CRASHED = 9
    EPISODE_NOT_STARTED = 10
    EPISODE_OVER = 11
    CAPACITY_REACHED = 12
    SESSION_NOT_FOUND = 13
    SESSION_CLOSED = 14
    SESSION_EXPIRED = 15
    SESSION_TAKEN_OVER = 16
    OUT_OF_ORDER = 17
    REQUEST_CONFLICT = 18
    OUTCOME_FORGOTTEN = 19
    TOO_MANY_OPERATIONS = 20
    DEADLINE_EXCEEDED = 21
    CANCELLED = 22
    DRAINING = 23
    UNAVAILABLE = 24
    NOT_SUPPORTED = 25
    MODE_FORBIDS = 26
    UNAUTHENTICATED = 27
    PERMISSION_DENIED = 28
    TOOL_NOT_FOUND = 29
    INVALID_ARGUMENTS = 30
    TASK_NOT_FOUND = 31
    SNAPSHOT_NOT_FOUND = 32
    PROTOCOL_VIOLATION = 33
    INTERNAL = 34
    MISSING_DEPENDENCY = 35
    RESOURCE_NOT_FOUND = 36
    CLIENT_CAPABILITY_MISSING = 37


class Effect(_NamedNumber):
    """Whether a failed operation took effect in the environment. Numbers are the proto's."""

    NONE = 1
    DONE = 2
    UNKNOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One place in the input that was refused."""

    path: str
    """JSON pointer into the refused value; empty for the whole of it."""
    type: str
    """Kind of the broken rule, in pydantic's words."""
    message: str
    """The rule, for people."""


class OpenEnvError(RuntimeError):
    """Base of every error of this project. `reason` tells them apart.

    It is a `RuntimeError`, as the errors of the reference's client are. `str()` is the message and
    the reason's name; `message` is the message alone.
    """

    reason: Reason = Reason.INTERNAL

    def __init__(
        self,
        message: str,
        *,
        effect: Effect = Effect.NONE,
        session_lost: bool = False,
        retry_delay_s: float | None = None,
        violations: Sequence[Violation] = (),
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.effect = effect
        self.session_lost = session_lost
        self.retry_delay_s = retry_delay_s
        self.violations = tuple(violations)
        self.metadata = dict(metadata or {})

    def __str__(self) -> str:
        return f"{self.message} [{self.reason.name}]"


class InvalidRequestError(OpenEnvError):
    """The message could not be understood."""

    reason = Reason.INVALID_REQUEST


class InvalidActionError(OpenEnvError):
    """The action does not fit the environment's action class."""

    reason = Reason.INVALID_ACTION


class MessageTooLargeError(OpenEnvError):
    """The message is larger than the receiver takes."""

    reason = Reason.MESSAGE_TOO_LARGE


class OutcomeTooLargeError(OpenEnvError):
    """The operation was done; its result is larger than the client takes."""

    reason = Reason.OUTCOME_TOO_LARGE


class UnserializableResultError(OpenEnvError):
    """The operation was done; its result has a value that cannot be sent."""

    reason = Reason.UNSERIALIZABLE_RESULT


class EnvironmentNotFoundError(OpenEnvError):
    """There is no environment of that name."""

    reason = Reason.ENVIRONMENT_NOT_FOUND


class EnvironmentFactoryError(OpenEnvError):
    """The environment's constructor failed."""

    reason = Reason.CONSTRUCTION_FAILED


class EnvironmentFailedError(OpenEnvError):
    """The environment raised an exception; `metadata` has `exception_type` and `exception_text`."""

    reason = Reason.ENVIRONMENT_FAILED


class EnvironmentCrashedError(OpenEnvError):
    """The environment's worker ended, or is stuck for good."""

    reason = Reason.ENVIRONMENT_CRASHED


class EpisodeNotStartedError(OpenEnvError):
    """A step came before a reset, in an environment that asks for one."""

    reason = Reason.EPISODE_NOT_STARTED


class EpisodeOverError(OpenEnvError):
    """A step came after the end of the episode, in an environment that refuses it."""

    reason = Reason.EPISODE_OVER


class SessionCapacityError(OpenEnvError):
    """All slots are taken; `metadata` has `active_sessions` and `max_sessions`."""

    reason = Reason.CAPACITY_REACHED


class SessionNotFoundError(OpenEnvError):
    """There is no such session, or there is none any more."""

    reason = Reason.SESSION_NOT_FOUND


class SessionClosedError(OpenEnvError):
    """The session has ended."""

    reason = Reason.SESSION_CLOSED


class SessionExpiredError(OpenEnvError):
    """The session ended since nothing was asked of it for too long."""

    reason = Reason.SESSION_EXPIRED


class SessionTakenOverError(OpenEnvError):
    """The session was attached to elsewhere."""

    reason = Reason.SESSION_TAKEN_OVER


class OutOfOrderError(OpenEnvError):
    """The request id is higher than the next one."""

    reason = Reason.OUT_OF_ORDER


class RequestConflictError(OpenEnvError):
    """The request id was used before, for something else."""

    reason = Reason.REQUEST_CONFLICT


class OutcomeForgottenError(OpenEnvError):
    """The request id was used before, and its outcome is no longer kept."""

    reason = Reason.OUTCOME_FORGOTTEN


class TooManyOperationsError(OpenEnvError):
    """Too many operations of one session are in flight."""

    reason = Reason.TOO_MANY_OPERATIONS


class DeadlineExceededError(OpenEnvError, TimeoutError):
    """The time given for an operation has passed."""

    reason = Reason.DEADLINE_EXCEEDED


class OperationCancelledError(OpenEnvError):
    """The operation was cancelled."""

    reason = Reason.CANCELLED


class DrainingError(OpenEnvError):
    """The server is about to stop and takes no new work."""

    reason = Reason.DRAINING


class UnavailableError(OpenEnvError, ConnectionError):
    """The server cannot be reached, or the connection was lost."""

    reason = Reason.UNAVAILABLE


class NotSupportedError(OpenEnvError):
    """The server, or the environment, does not offer that."""

    reason = Reason.NOT_SUPPORTED


class ModeForbidsError(OpenEnvError):
    """The server's mode forbids that."""

    reason = Reason.MODE_FORBIDS


class UnauthenticatedError(OpenEnvError):
    """No valid token came with the request."""

    reason = Reason.UNAUTHENTICATED


class PermissionDeniedError(OpenEnvError):
    """The token does not permit that."""

    reason = Reason.PERMISSION_DENIED


class ToolNotFoundError(OpenEnvError):
    """The environment has no tool of that name."""

    reason = Reason.TOOL_NOT_FOUND


class InvalidArgumentsError(OpenEnvError):
    """A tool's arguments do not fit its schema."""

    reason = Reason.INVALID_ARGUMENTS


class TaskNotFoundError(OpenEnvError):
    """There is no such split or task."""

    reason = Reason.TASK_NOT_FOUND


class SnapshotNotFoundError(OpenEnvError):
    """There is no such snapshot."""

    reason = Reason.SNAPSHOT_NOT_FOUND


class ProtocolViolationError(OpenEnvError):
    """The peer sent something that the protocol does not allow."""

    reason = Reason.PROTOCOL_VIOLATION


class InternalError(OpenEnvError):
    """A defect of ours. The log has the details."""

    reason = Reason.INTERNAL


class MissingDependencyError(OpenEnvError, ImportError):
    """A package that this needs is not installed."""

    reason = Reason.MISSING_DEPENDENCY


class ResourceNotFoundError(OpenEnvError):
    """The environment has no resource of that URI."""

    reason = Reason.RESOURCE_NOT_FOUND


class ClientCapabilityError(OpenEnvError):
    """A tool asks for what its caller's client does not offer; `capability` says for what."""

    reason = Reason.CLIENT_CAPABILITY_MISSING


class ClientAnswerError(RuntimeError):
    """A client that a tool asked gave no answer, or none that fits. Raised within the tool."""


class ConfigurationError(ValueError):
    """What was asked for cannot be served as it stands. The message is one line, for people."""


class ConcurrencyConfigurationError(ConfigurationError):
    """More sessions are asked for than the environment's class supports."""

    def __init__(self, environment_name: str, max_concurrent_envs: int) -> None:
        super().__init__(
            f"{environment_name} does not support concurrent sessions, but "
            f"{max_concurrent_envs} are asked for. Set SUPPORTS_CONCURRENT_SESSIONS = True on the "
            "class if its instances do not share state, or serve it with one session."
        )
        self.environment_name = environment_name
        self.max_concurrent_envs = max_concurrent_envs


ERROR_TYPES: dict[Reason, type[OpenEnvError]] = {
    error.reason: error for error in OpenEnvError.__subclasses__()
}
"""The class for each reason."""
