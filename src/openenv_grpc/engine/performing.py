"""One operation of an environment: read, done, written; whatever happens, there is an answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from openenv_grpc.engine.agent_side import Prepared
from openenv_grpc.engine.instance import Instance, no_such_method
from openenv_grpc.engine.verdicts import text_of
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
from openenv_grpc.operations import Kind, Operation, Result

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
        try:
            call, complete = self._prepared(operation)
            try:
                value = call()
            except Exception as error:  # an environment may raise anything
                raise self._failed(operation, error) from error
            return self._written(operation, complete, value), None
        except OpenEnvError as error:
            return operation.codec.write_error(operation, error, self._spec), error
        finally:
            SESSION_ID.reset(here)

    async def perform_async(self, operation: Operation) -> Outcome:
        """Does an operation that is awaited, in a task of its own."""
        SESSION_ID.set(self._session_id)
        try:
            call, complete = self._prepared(operation)
            try:
                value = await call()
            except Exception as error:  # an environment may raise anything
                raise self._failed(operation, error) from error
            return self._written(operation, complete, value), None
        except OpenEnvError as error:
            return operation.codec.write_error(operation, error, self._spec), error

    def _prepared(self, operation: Operation) -> Prepared:
        try:
            return self.instance.prepared(operation)
        except OpenEnvError:
            raise
        except Exception as error:  # validators of an action class may raise anything
            raise self._failed(operation, error, effect=Effect.NONE) from error

    def _written(
        self, operation: Operation, complete: Callable[[Any], Result], value: Any
    ) -> bytes:
        try:
            return operation.codec.write(operation, complete(value), self._spec)
        except UnserializableResultError as error:
            self._log(
                "result cannot be sent",
                operation=operation.kind.value,
                type=type(value).__name__,
                detail=error.message,
            )
            raise
        except OpenEnvError:
            raise
        except Exception as error:  # serializers of an observation class may raise anything
            raise self._failed(operation, error, effect=Effect.DONE) from error

    def _failed(
        self, operation: Operation, error: Exception, *, effect: Effect = Effect.UNKNOWN
    ) -> OpenEnvError:
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
