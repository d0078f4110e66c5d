"""Why a session will not do something, or could not: the errors that it makes itself."""

from __future__ import annotations

import copy
import signal

from openenv_grpc.crew import Crew, WorkerAddress
from openenv_grpc.environment_spec import EnvironmentSpec
from openenv_grpc.errors import (
    DeadlineExceededError,
    DrainingError,
    Effect,
    EnvironmentCrashedError,
    EnvironmentFactoryError,
    InternalError,
    InvalidRequestError,
    ModeForbidsError,
    OpenEnvError,
    OperationCancelledError,
    OutOfOrderError,
    SessionClosedError,
    SessionExpiredError,
    SessionNotFoundError,
    SessionTakenOverError,
)
from openenv_grpc.operations import TRAINER_KINDS, Kind, Operation
from openenv_grpc.types import ServerMode


class WorkerTraceback(Exception):
    """What was raised in a worker process. Its text is the traceback."""

    def __str__(self) -> str:
        return f"in the worker process\n{self.args[0]}"


def check_first(operation: Operation) -> None:
    """Refuses a session's first operation if it has another's number.

    Raises:
        OutOfOrderError: it is not 1, nor left to the session.
    """
    if operation.request_id is not None and operation.request_id > 1:
        raise OutOfOrderError(
            f"the first operation of a session has request_id 1, not {operation.request_id}"
        )


def on_arrival(operation: Operation) -> OpenEnvError | None:
    """Refuses an operation whose time has passed already."""
    if operation.timeout_s is None or operation.timeout_s > 0:
        return None
    return DeadlineExceededError("the time for the operation had passed when it arrived")


def doubtful(spec: EnvironmentSpec) -> frozenset[Kind]:
    """Returns the kinds of operations that `forbidden` may refuse; the others are not asked."""
    refused = TRAINER_KINDS if spec.mode is ServerMode.PRODUCTION else frozenset()
    return refused | {Kind.OPEN, Kind.RESET}


def forbidden(
    operation: Operation, spec: EnvironmentSpec, *, draining: bool
) -> OpenEnvError | None:
    """Refuses what an open session does not do."""
    kind = operation.kind
    if kind is Kind.OPEN:
        return InvalidRequestError("the session is open already")
    if spec.mode is ServerMode.PRODUCTION and kind in TRAINER_KINDS:
        return ModeForbidsError(f"the server runs in production mode, which has no {kind.value}")
    if kind is Kind.RESET and draining:
        return DrainingError("the server is about to stop and starts no new episodes")
    return None


def expired(operation: Operation, effect: Effect) -> OpenEnvError:
    """The operation's time has passed."""
    text = f"the operation did not end within {operation.timeout_s:g} seconds"
    ending = "it had not started" if effect is Effect.NONE else "it may still take effect"
    return DeadlineExceededError(f"{text}; {ending}", effect=effect)


def cancelled(effect: Effect) -> OpenEnvError:
    """The operation was cancelled."""
    ending = "before it started" if effect is Effect.NONE else "while it ran"
    return OperationCancelledError(f"the operation was cancelled {ending}", effect=effect)


def killed() -> OpenEnvError:
    """The operation was cancelled by ending the process that did it."""
    return OperationCancelledError(
        "the operation was cancelled while it ran, which took its process; the session is lost",
        effect=Effect.UNKNOWN,
        session_lost=True,
    )


def closed() -> OpenEnvError:
    """The session was closed."""
    return SessionClosedError("the session is closed; open another")


def taken_over() -> OpenEnvError:
    """Somebody else has attached to the session."""
    return SessionTakenOverError(
        "the session was attached to elsewhere, and goes on there; open another"
    )


def let_go() -> OpenEnvError:
    """The connection has ended, and the session lives on without it."""
    return SessionClosedError("the connection has ended; attach to the session on another")


def window_passed(window_s: float) -> OpenEnvError:
    """Nobody has attached to the session in time."""
    return SessionExpiredError(
        f"nobody attached to the session within its window of {window_s:g} seconds"
    )


def evicted() -> OpenEnvError:
    """Somebody else needed the slot of a session that nobody was attached to."""
    return SessionExpiredError(
        "nobody was attached to the session, and another needed its slot; open another"
    )


def not_found(session_id: str, crew: Crew | None) -> OpenEnvError:
    """There is nothing to attach to, or not with that key: which of both is not told."""
    at = None if crew is None else crew.address_of(session_id)
    if at is not None:
        return _elsewhere(session_id, *at)
    return SessionNotFoundError(
        f"there is no session {session_id!r} with that resume_key; it may have ended, or its "
        "window passed. Open another",
        session_lost=True,
    )


def no_session(session_id: str, crew: Crew | None) -> OpenEnvError:
    """There is no such session here; one that another worker opened is there."""
    at = None if crew is None else crew.address_of(session_id)
    if at is not None:
        return _elsewhere(session_id, *at)
    return SessionNotFoundError(f"there is no session {session_id}; it may have ended")


def _elsewhere(session_id: str, worker: int, address: WorkerAddress) -> OpenEnvError:
    told = {
        "worker": str(worker),
        "grpc_port": str(address.grpc_port or ""),
        "http_port": str(address.http_port or ""),
        "public_url": address.public_url,
    }
    return SessionNotFoundError(
        f"the session {session_id} is not in this one of the server's workers but in number "
        f"{worker}, if it has not ended; ask there: the metadata tells where that is",
        metadata={name: text for name, text in told.items() if text},
    )


def stuck() -> OpenEnvError:
    """A call does not return."""
    return EnvironmentCrashedError(
        "the environment does not return from a call whose time is over; the session is lost",
        effect=Effect.UNKNOWN,
        session_lost=True,
    )


def crashed(error: BaseException) -> OpenEnvError:
    """The environment raised what ends a program."""
    crash = EnvironmentCrashedError(
        f"the environment raised {type(error).__name__}; the session is lost",
        effect=Effect.UNKNOWN,
        session_lost=True,
    )
    crash.__cause__ = error
    return crash


def process_ended(exit_code: int) -> OpenEnvError:
    """The environment's process has ended on its own. Negative codes are signals."""
    ending = f"ended with exit status {exit_code}"
    if exit_code < 0:
        known = {number.value: number.name for number in signal.Signals}
        ending = f"was ended by {known.get(-exit_code, f'signal {-exit_code}')}"
    return EnvironmentCrashedError(
        f"the environment's process {ending}; the session is lost",
        effect=Effect.UNKNOWN,
        session_lost=True,
        metadata={"exit_code": str(exit_code)},
    )


def defect(error: Exception) -> OpenEnvError:
    """Something of ours is wrong."""
    internal = InternalError("the server failed; its log tells how", effect=Effect.UNKNOWN)
    internal.__cause__ = error
    return internal


def not_restored(error: BaseException) -> OpenEnvError:
    """The environment could not go on from a snapshot."""
    match error:
        case OpenEnvError():
            told = error
        case Exception():
            told = defect(error)
        case _:
            told = crashed(error)
    failure = copied(told, Effect.NONE, session_lost=True)
    failure.message = f"the snapshot could not be restored: {told.message}"
    return failure


def not_built(factory_name: str, error: BaseException, *, redact: bool = False) -> OpenEnvError:
    """The environment's constructor failed; `redact` keeps how from clients."""
    why = "the server's log tells how" if redact else _said(error)
    failure = EnvironmentFactoryError(
        f"Environment factory '{factory_name}' failed to create instance: {why}",
        session_lost=True,
        metadata={"factory_name": factory_name},
    )
    failure.__cause__ = error
    return failure


def _said(error: BaseException) -> str:
    """Returns what a traceback ends with."""
    match error:
        case OpenEnvError():
            return error.message
        case WorkerTraceback():
            return str(error).rstrip().rpartition("\n")[2]
        case _:
            return f"{type(error).__name__}: {text_of(error)}"


def text_of(error: BaseException) -> str:
    """Returns what an exception of an author says."""
    try:
        return str(error)
    except Exception:  # the author's own `__str__` may fail too
        return "its text cannot be told"


def copied(
    error: OpenEnvError, effect: Effect, *, session_lost: bool | None = None
) -> OpenEnvError:
    """Returns the same error, said of another operation."""
    same = copy.copy(error)
    same.__cause__ = error.__cause__
    same.effect = effect
    if session_lost is not None:
        same.session_lost = session_lost
    return same
