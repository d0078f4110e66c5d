"""One operation of an environment: read, done, written; whatever happens, there is an answer."""

from __future__ import annotations

import asyncio
import logging

from openenv_grpc.engine.instance import Instance, no_such_method
from openenv_grpc.engine.relay import Done
from openenv_grpc.engine.verdicts import cancelled, text_of
from openenv_grpc.environment_spec import EnvironmentSpec
from openenv_grpc.errors import (
    ClientAnswerError,
    ClientCapabilityError,
    DeadlineExceededError,
    Effect,
    EnvironmentFailedError,
    EpisodeNotStartedError,
    EpisodeOverError,
    InvalidActionError,
    InvalidArgumentsError,
    NotSupportedError,
    OpenEnvError,
    ResourceNotFoundError,
    TaskNotFoundError,
    ToolNotFoundError,
    UnserializableResultError,
)
from openenv_grpc.events import SESSION_ID, Fact, in_session, log_event
from openenv_grpc.operations import Kind, Operation

logger = logging.getLogger(__name__)

PASSED_ON = (
    ClientCapabilityError,
    DeadlineExceededError,
    EpisodeNotStartedError,
    EpisodeOverError,
    InvalidActionError,
    InvalidArgumentsError,
    NotSupportedError,
    ResourceNotFoundError,
    TaskNotFoundError,
    ToolNotFoundError,
    UnserializableResultError,
)
"""Errors of ours that mean what they say when an environment raises them."""

_NONE, _UNKNOWN, _DONE = Effect.NONE, Effect.UNKNOWN, Effect.DONE
"""What a step had done, by its stages; an enumeration's members are slow to look up."""

Outcome = tuple[bytes, OpenEnvError | None]
"""What goes to the client, and the error if that tells of one."""


class Performer:
    """Does the operations of one environment. Everything here runs where the environment runs."""

    def __init__(self, instance: Instance, *, session_id: str, redact_errors: bool) -> None:
        self.instance = instance
        self._spec = instance.spec
        self._session_id = session_id
        self._redact_errors = redact_errors

    def perform(self, operation: Operation) -> Outcome:
        """Does a blocking operation."""
        here = SESSION_ID.set(self._session_id)
        effect, value = _NONE, None
        try:
            call, complete = self.instance.prepared(operation)
            effect = _UNKNOWN
            value = call()
            effect = _DONE
            return operation.codec.write(operation, complete(value), self._spec), None
        except Exception as error:  # an environment may raise anything
            return self._failure(operation, error, effect, value)
        finally:
            SESSION_ID.reset(here)

    async def perform_async(self, operation: Operation) -> Outcome:
        """Does an operation that is awaited, in a task of its own."""
        SESSION_ID.set(self._session_id)
        effect, value = _NONE, None
        try:
            call, complete = self.instance.prepared(operation)
            effect = _UNKNOWN
            value = await call()
            effect = _DONE
            return operation.codec.write(operation, complete(value), self._spec), None
        except Exception as error:  # an environment may raise anything
            return self._failure(operation, error, effect, value)

    def _failure(
        self, operation: Operation, error: Exception, effect: Effect, value: object
    ) -> Outcome:
        """Answers an operation that failed when it had that effect, and the environment's value.

        An error of ours means what it says, but where the environment itself has raised it.
        Validators of an action class may raise anything, too, and serializers of an observation.
        """
        if not isinstance(error, OpenEnvError) or effect is _UNKNOWN:
            told = self._failed(operation, error, effect=effect)
            if told is not error:
                told.__cause__ = error
        else:
            told = error
            if effect is _DONE and isinstance(error, UnserializableResultError):
                self._log(
                    "result cannot be sent",
                    operation=operation.kind.value,
                    type=type(value).__name__,
                    detail=error.message,
                )
        return operation.codec.write_error(operation, told, self._spec), told

    def _failed(self, operation: Operation, error: Exception, *, effect: Effect) -> OpenEnvError:
        """Turns what an environment raised into what its client is told, and logs it."""
        if isinstance(error, PASSED_ON):
            return error
        if operation.kind is Kind.TASKS and isinstance(error, IndexError):
            return TaskNotFoundError("Invalid task index")
        if operation.kind is Kind.TASKS and isinstance(error, NotImplementedError):
            return no_such_method(operation.payload.method)
        name = self._spec.name
        if not isinstance(error, ClientAnswerError):  # the client's doing, and told to it
            self._log("environment failed", error, operation=operation.kind.value)
        if self._redact_errors:
            return EnvironmentFailedError(
                "the environment failed; the server's log tells how",
                effect=effect,
                metadata={"environment": name},
            )
        kind, text = type(error).__name__, text_of(error)
        return EnvironmentFailedError(
            f"{kind}: {text}",
            effect=effect,
            metadata={"exception_type": kind, "exception_text": text, "environment": name},
        )

    def close(self) -> None:
        """Closes a blocking environment; what it raises is logged."""
        with in_session(self._session_id):
            try:
                self.instance.close()
            except Exception as error:  # an environment may raise anything
                self._log("environment failed to close", error)

    async def close_async(self) -> None:
        """Closes an environment whose `close` is awaited; what it raises is logged."""
        SESSION_ID.set(self._session_id)  # of the task that is made for this
        try:
            await self.instance.close()
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # SystemExit would end the event loop
            self._log("environment failed to close", error)

    def _log(self, event: str, error: BaseException | None = None, **facts: Fact) -> None:
        told: dict[str, Fact] = {"session_id": self._session_id, "environment": self._spec.name}
        log_event(logger, logging.ERROR, event, {**told, **facts}, error=error)


def pass_on(
    operation: Operation,
    done: Done,
    spec: EnvironmentSpec,
    task: asyncio.Task[Outcome | BaseException],
) -> None:
    """Tells the outcome of an operation whose task has ended."""
    if task.cancelled():
        error = cancelled(_UNKNOWN)
        done(operation, (operation.codec.write_error(operation, error, spec), error))
    else:
        done(operation, task.result())
