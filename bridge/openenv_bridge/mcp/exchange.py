"""One call and all that is told for it: notifications while it runs, and its answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing
from dataclasses import dataclass

from openenv_bridge.mcp.messages import Call, identifier, notification
from openenv_bridge.mcp.requests import Requests
from openenv_grpc.hearing import Asked, Interview, Withdrawn, converse, hear
from openenv_grpc.operations import Kind, Operation, Reply
from openenv_grpc.sessions import SessionPort
from openenv_grpc.tools import ToolLog, ToolNotice, ToolProgress
from openenv_grpc.tools.notices import LOG_LEVELS
from openenv_grpc.types import JsonValue


@dataclass(frozen=True, slots=True)
class Answered:
    """The last that is told: the answer."""

    content: bytes
    reply: Reply | None = None
    """What the session replied, if it was asked."""


Told = AsyncGenerator[bytes | Answered, None]
"""Notifications, and at last the answer. Closing it before that cancels the call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a client wants to be told while its call runs."""

    progress_token: str | int | None = None
    level: str | None = None
    """The least urgent of what tools log; `None` for nothing."""
    subscribed: Iterable[str] = ()
    """URIs of resources that a tool call may change."""


def progress_token(call: Call) -> str | int | None:
    """Returns by what a client knows the progress of its call."""
    return identifier(call.meta.get("progressToken"))


async def at_once(content: bytes) -> Told:
    """Tells an answer for which nothing need be asked."""
    yield Answered(content)


async def exchange(session: SessionPort, operation: Operation, wanted: Wanted) -> Told:
    """Has an operation done, and tells what is wanted of it."""
    async with aclosing(hear(session, operation)) as heard:
        async for told in heard:
            for each in written(told, wanted):
                yield each


async def interview(
    session: SessionPort,
    operation: Operation,
    wanted: Wanted,
    asks: Interview,
    requests: Requests,
) -> Told:
    """Does what `exchange` does, and tells what the tool asks, by requests."""
    async with aclosing(converse(session, operation, asks)) as heard:
        async for told in heard:
            match told:
                case Asked():
                    for question in told.questions:
                        yield requests.write(question)
                case Withdrawn():
                    yield requests.withdraw(told.question)
                case _:
                    for each in written(told, wanted):
                        yield each


def written(told: ToolNotice | Reply, wanted: Wanted) -> Iterator[bytes | Answered]:
    """Writes what is wanted of what is heard."""
    match told:
        case Reply():
            if told.operation.kind is Kind.CALL_TOOL:
                for uri in sorted(wanted.subscribed):
                    yield notification("notifications/resources/updated", {"uri": uri})
            yield Answered(told.content, told)
        case ToolProgress() if wanted.progress_token is not None:
            yield _progress(told, wanted.progress_token)
        case ToolLog() if _is_urgent(told.level, wanted.level):
            yield _log(told)


def _is_urgent(level: str, least: str | None) -> bool:
    return least is not None and LOG_LEVELS.index(level) >= LOG_LEVELS.index(least)


def _progress(told: ToolProgress, token: str | int) -> bytes:
    params: dict[str, JsonValue] = {"progressToken": token, "progress": told.progress}
    if told.total is not None:
        params["total"] = told.total
    if told.message:
        params["message"] = told.message
    return notification("notifications/progress", params)


def _log(told: ToolLog) -> bytes:
    params: dict[str, JsonValue] = {"level": told.level, "data": told.data}
    if told.logger:
        params["logger"] = told.logger
    return notification("notifications/message", params)
