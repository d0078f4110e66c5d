"""JSON `/ws` with a window: a session that outlives its socket, and frames that may be repeated."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Self

from aiohttp import web

from openenv_bridge import errors
from openenv_bridge.conversation import Ask, Plan
from openenv_bridge.leases import Leases
from openenv_bridge.sockets import Socket
from openenv_bridge.ws import JsonTalk, refuse
from openenv_bridge.ws_messages import (
    JSON_CODEC,
    CloseFrame,
    Frame,
    SessionKey,
    error_frame,
    session_frame,
)
from openenv_grpc.environment_spec import EnvironmentSpec
from openenv_grpc.errors import InvalidRequestError, OpenEnvError
from openenv_grpc.operations import Kind, Operation, Reply
from openenv_grpc.serialization import dump_json
from openenv_grpc.sessions import Resume, SessionHost
from openenv_grpc.stream import digest

WINDOW = "resume_window_s"
KEY = "resume_key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resuming:
    """What a handshake says of a window: that there be one, or which session to take up."""

    window_s: str = ""
    session_id: str = ""
    key: str = field(default="", repr=False)

    @classmethod
    def asked(cls, request: web.Request) -> Self | None:
        """Reads a handshake's query; `None` if it asks for a socket as the reference has it."""
        query = request.query
        if KEY in query:
            return cls(session_id=query.get("session_id", ""), key=query[KEY])
        return cls(window_s=query[WINDOW]) if WINDOW in query else None

    def seconds(self) -> float:
        """Returns the window. Raises `InvalidRequestError` if it is none."""
        try:
            seconds = float(self.window_s)
        except ValueError:
            seconds = 0.0
        if not 0 < seconds < float("inf"):
            raise InvalidRequestError(
                f"{WINDOW} is a number of seconds above 0, not {self.window_s!r}; leave it out for "
                "a session that ends with its socket"
            )
        return seconds


async def serve_resumable(
    socket: Socket,
    host: SessionHost,
    leases: Leases,
    resuming: Resuming,
    *,
    environment: EnvironmentSpec,
) -> None:
    """Serves a socket until either side ends it. Its session lives on for its window."""
    talk = NumberedTalk(socket, leases)
    try:
        async with _held(talk, host, resuming, environment=environment.name, peer=socket.peer):
            await talk.conversation.run()
    except OpenEnvError as error:
        await refuse(socket, error, environment)
    await socket.close()


@asynccontextmanager
async def _held(
    talk: NumberedTalk, host: SessionHost, resuming: Resuming, *, environment: str, peer: str
) -> AsyncIterator[None]:
    """Opens a session, or takes one up; what it is called is said first of all.

    Raises what `Attachment.open` and `Attachment.attach` raise.
    """
    async with host.attach(peer=peer) as attachment:
        if resuming.key:
            talk.session = attachment.attach(
                resuming.session_id, resuming.key, on_lost=lambda _, error: talk.lost(error)
            )
            last_id = talk.session.last_request_id
            talk.conversation.say(session_frame(talk.session.id, last_request_id=last_id))
        else:
            key = secrets.token_urlsafe(24)
            talk.session = attachment.open(
                environment,
                operation=Operation(kind=Kind.OPEN, codec=JSON_CODEC, context=SessionKey(key)),
                deliver=talk.opened,
                on_lost=lambda _, error: talk.lost(error),
                resume=Resume(key=key, window_s=resuming.seconds()),
            )
        yield


class NumberedTalk(JsonTalk):
    """What frames mean where each has a number: one that was used before is not done again."""

    def opened(self, reply: Reply) -> None:
        """Takes the outcome of the session's opening, and tells what the session is called."""
        if reply.error is None:
            self.conversation.say(reply.content)
        self.conversation.opened(reply)

    def _plan_frame(self, frame: Frame) -> Plan:
        number = frame.request_id
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            return error_frame(
                "frames of a session with a window have a request_id, which counts from 1; the "
                f"next is {self.session.last_request_id + 1}",
                errors.VALIDATION_ERROR,
                request_id=number,
            )
        if isinstance(frame, CloseFrame):
            closing = Operation(kind=Kind.CLOSE, codec=JSON_CODEC, context=number)
            plan: Plan = Ask(self.session, closing, is_last=True)
        else:
            plan = super()._plan_frame(frame)
        if isinstance(plan, Ask) and plan.session is self.session:
            content = dump_json(frame.model_dump(include={"data"}))
            plan.operation.request_id, plan.operation.digest = number, digest(frame.type, content)
        return plan
