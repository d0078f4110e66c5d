"""What a client asks of a session that runs elsewhere, whatever is spoken to it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

from openenv_grpc.client.agent_access import AgentAccess
from openenv_grpc.client.outcomes import Evaluation
from openenv_grpc.client.pending import Posted
from openenv_grpc.client.time_limits import TimeLimits
from openenv_grpc.errors import (
    DeadlineExceededError,
    Effect,
    MessageTooLargeError,
    OpenEnvError,
    OutcomeTooLargeError,
)
from openenv_grpc.tools import Tool
from openenv_grpc.types import Budgets, JsonValue

AnswerT = TypeVar("AnswerT")


class Actions(Protocol):
    """Gives each environment its action, by its place among those that are asked."""

    def fields(self, row: int) -> Mapping[str, JsonValue]:
        """Returns an action as a mapping."""
        ...

    def payload(self, row: int) -> bytes:
        """Returns it as it is sent. Raises `InvalidRequestError` if it cannot be."""
        ...


class RemoteSession(Protocol):
    """One instance of an environment on a server.

    Payloads of observations are mappings with `observation`, `reward`, `done`, `terminated`,
    `truncated`, `info` and, if there is some, `metadata`. Every call has a limit, and raises an
    `OpenEnvError` of one kind or another.
    """

    @property
    def limits(self) -> TimeLimits:
        """How long answers are waited for."""
        ...

    @property
    def lost(self) -> OpenEnvError | None:
        """Why the session is gone; `None` while it is there."""
        ...

    @property
    def budgets(self) -> Budgets:
        """How long the environment's operations take, as far as that is known."""
        ...

    @property
    def shares_memory(self) -> bool:
        """Whether its large messages go through memory that the server has mapped, too."""
        ...

    async def reset(
        self, keywords: Mapping[str, JsonValue], *, timeout_s: float | None
    ) -> dict[str, Any]:
        """Starts an episode and returns the payload of its observation."""
        ...

    async def step(
        self,
        action: Mapping[str, JsonValue],
        keywords: Mapping[str, JsonValue],
        *,
        timeout_s: float | None,
    ) -> dict[str, Any]:
        """Applies an action and returns the payload of the observation."""
        ...

    def post_reset(self, keywords: Mapping[str, JsonValue], place: Posted) -> None:
        """Starts an episode without waiting. Raises what is wrong before anything is sent."""
        ...

    def post_step(self, actions: Actions, row: int, place: Posted) -> None:
        """Applies one of some actions without waiting. Raises what is wrong before it is sent."""
        ...

    async def state(self) -> dict[str, Any]:
        """Reads the environment's state."""
        ...

    async def evaluate(self) -> Evaluation:
        """Asks for the verdict without a step."""
        ...

    async def snapshot(self) -> str:
        """Saves the environment in the server and returns the snapshot's id."""
        ...

    def agent_access(self) -> AgentAccess:
        """Tells what the session's agent needs. Raises `NotSupportedError`."""
        ...

    async def list_tools(self) -> list[Tool]:
        """Lists the session's tools."""
        ...

    async def call_tool(self, name: str, arguments: Mapping[str, JsonValue]) -> JsonValue:
        """Calls a tool and returns its answer. Raises if the tool failed."""
        ...

    async def close(self) -> None:
        """Ends the session. Never raises an `OpenEnvError`."""
        ...


async def answer_within(answer: asyncio.Future[AnswerT], limit_s: float, *, what: str) -> AnswerT:
    """Waits for an answer, at most as long as the client is willing to.

    Raises:
        DeadlineExceededError: it did not come in time. It may still come.
    """
    timer = asyncio.get_running_loop().call_later(limit_s, _give_up, answer, limit_s, what)
    try:
        return await answer
    finally:
        timer.cancel()


def _give_up(answer: asyncio.Future[Any], limit_s: float, what: str) -> None:
    if not answer.done():
        answer.set_exception(no_answer(what, limit_s))


def no_answer(what: str, limit_s: float) -> OpenEnvError:
    """Makes the error for a call whose answer did not come in time."""
    return DeadlineExceededError(
        f"no answer to {what} within {limit_s:g} s; it may still be running. Ask for "
        "state(), or reset(), to know where the episode is",
        effect=Effect.UNKNOWN,
    )


def gone(lost: OpenEnvError) -> OpenEnvError:
    """Makes the error for calls after a session was lost."""
    return type(lost)(
        f"the session is gone ({lost.message}); call reset() to open another",
        session_lost=True,
        retry_delay_s=lost.retry_delay_s,
        metadata=lost.metadata,
    )


def in_flight(lost: OpenEnvError, *, arrived: bool = True) -> OpenEnvError:
    """Makes the error for a call that was under way when its session was lost.

    `arrived` tells whether the call may have reached the session.
    """
    message, effect = lost.message, lost.effect
    if not arrived:
        effect = Effect.NONE
        message += "; the call did not take effect"
    elif not isinstance(lost, (MessageTooLargeError, OutcomeTooLargeError)):
        effect = Effect.UNKNOWN
        message += "; whether the call took effect is not known"
    return type(lost)(
        f"{message}; call reset() to open another session",
        effect=effect,
        session_lost=True,
        retry_delay_s=lost.retry_delay_s,
        metadata=lost.metadata,
    )
