"""A session on a shared link, which outlives its streams: nothing is lost, nothing done twice."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from openenv_grpc.client import operations
from openenv_grpc.client.agent_access import AgentAccess
from openenv_grpc.client.link import STEADY_S, Link, Stream
from openenv_grpc.client.outcome_place import OutcomePlace
from openenv_grpc.client.remote_session import (
    CLOSE_TIMEOUT_S,
    Evaluation,
    Place,
    answer_within,
    gone,
    no_answer,
)
from openenv_grpc.client.tool_calls import (
    AskTools,
    ToolCaller,
    ask_again,
    call_by_step,
    list_by_step,
)
from openenv_grpc.client.unanswered import Answer, Pending, Unanswered
from openenv_grpc.errors import (
    NotSupportedError,
    OpenEnvError,
    SessionClosedError,
    UnavailableError,
)
from openenv_grpc.tools import Tool
from openenv_grpc.types import JsonValue
from openenv_grpc.v1 import session_pb2
from openenv_grpc.wire import durations, status
from openenv_grpc.wire.varints import varint

AGENT_ACCESS = "agent_access"
"""The feature of servers that mint access for agents."""

SLACK_S = 2.0
"""How much longer than an operation's own limit the client waits for the server to say so."""

AnswerT = TypeVar("AnswerT")

_ATTACH = 1  # its control id


class ConnectSession:
    """Numbers its operations from 1, and pairs their outcomes with those who wait.

    When a stream is lost, operations without an outcome are sent again on the next one, with the
    same numbers, by which the server knows what it has done already.
    """

    def __init__(
        self,
        link: Link,
        *,
        release: Callable[[], Awaitable[None]],
        target: str,
        message_timeout_s: float,
        resume_window_s: float | None,
    ) -> None:
        self._link = link
        self._release = release
        self._target = target
        self._message_timeout_s = message_timeout_s
        self._loop = asyncio.get_running_loop()
        self._window_s = resume_window_s if "resume" in link.limits.features else None
        self._key = secrets.token_urlsafe(24)
        self._id = ""  # until it is known, what was sent is sent again from the `open` on
        self._last_id = 0
        self._unanswered = Unanswered()
        self._stream: Stream | None = None
        self._number = 0
        self._prefix = b""  # the number, as operations carry it
        self._standing = asyncio.Event()  # whether there is a stream, or never will be
        self._stranded_at: float | None = None  # when the trouble began that is not over yet
        self._boarded = 0  # how many streams there have been
        self._boarded_at: float | None = None
        self._giving_up: asyncio.TimerHandle | None = None
        self._agent_access: AgentAccess | None = None
        self.lost: OpenEnvError | None = None
        link.add(self)

    async def open(self, environment: str) -> None:
        """Opens the session on the server. Raises an `OpenEnvError` if it does not want to."""
        offered = AGENT_ACCESS in self._link.limits.features
        operation = operations.open_session(
            environment,
            agent_access=offered,
            resume_key=self._key,
            resume_window_s=self._window_s,
        )
        opened = (await self._ask(operation, what="open")).open
        self._id = opened.session_id
        granted = opened.HasField("resume_window")
        self._window_s = (
            durations.read_duration(opened.resume_window, what="resume_window") if granted else None
        )
        if offered:
            self._agent_access = AgentAccess(
                url=opened.agent_access.mcp_url,
                token=opened.agent_access.token,
                session_id=opened.session_id,
            )

    async def reset(
        self, keywords: Mapping[str, JsonValue], *, timeout_s: float | None
    ) -> dict[str, Any]:
        """See `RemoteSession`."""
        operation = operations.reset_episode(keywords)
        outcome = await self._ask(operation, what="reset", timeout_s=timeout_s)
        return operations.observed(outcome.reset_episode)

    async def step(
        self,
        action: Mapping[str, JsonValue],
        keywords: Mapping[str, JsonValue],
        *,
        timeout_s: float | None,
    ) -> dict[str, Any]:
        """See `RemoteSession`."""
        operation = operations.step(action, keywords)
        outcome = await self._ask(operation, what="step", timeout_s=timeout_s)
        return operations.observed(outcome.step)

    def post_reset(self, keywords: Mapping[str, JsonValue], place: Place) -> None:
        """See `RemoteSession`."""
        self._post(operations.reset_episode(keywords), OutcomePlace(place, self._failure))

    def post_step(self, action: Mapping[str, JsonValue], place: Place) -> None:
        """See `RemoteSession`."""
        self._post(operations.step(action, {}), OutcomePlace(place, self._failure))

    async def state(self) -> dict[str, Any]:
        """See `RemoteSession`."""
        outcome = await self._ask(operations.get_state(), what="state")
        return operations.state_read(outcome.get_state)

    async def evaluate(self) -> Evaluation:
        """See `RemoteSession`."""
        outcome = await self._ask(operations.evaluate(), what="evaluate")
        return operations.evaluated(outcome.evaluate)

    def agent_access(self) -> AgentAccess:
        """See `RemoteSession`."""
        self._check()
        if self._agent_access is None:
            raise NotSupportedError("the server offers no access for agents")
        return self._agent_access

    async def list_tools(self) -> list[Tool]:
        """See `RemoteSession`."""

        async def ask(tools: ToolCaller | None, limit_s: float) -> list[Tool]:
            if tools is None:
                return await list_by_step(self)
            return await tools.list_tools(self._id, limit_s=limit_s)

        return await self._by_tools(ask)

    async def call_tool(self, name: str, arguments: Mapping[str, JsonValue]) -> JsonValue:
        """See `RemoteSession`. A call whose connection was lost is sent again, not done again."""
        call_id = secrets.token_hex(16)

        async def ask(tools: ToolCaller | None, limit_s: float) -> JsonValue:
            if tools is None:
                return await call_by_step(self, name, arguments)
            return await tools.call_tool(
                self._id, name, arguments, call_id=call_id, limit_s=limit_s
            )

        return await self._by_tools(ask)

    async def _by_tools(self, ask: AskTools[AnswerT]) -> AnswerT:
        return await ask_again(
            ask, self._tools, limit_s=self._message_timeout_s, again=self._window_s is not None
        )

    async def _tools(self) -> ToolCaller | None:
        """Returns what calls tools, as soon as there is a stream to call them beside."""
        self._check()
        if self._stream is None:
            try:
                async with asyncio.timeout(self._message_timeout_s):
                    await self._standing.wait()
            except TimeoutError:
                raise no_answer("the tool call", self._message_timeout_s) from None
            self._check()
        return None if self._stream is None else self._stream.tools

    async def close(self) -> None:
        """See `RemoteSession`. A session that is gone counts as closed."""
        settled = False
        try:
            if self.lost is None:
                await self._ask(
                    operations.close(), what="close", limit_s=CLOSE_TIMEOUT_S, cancels=False
                )
            settled = True
        except OpenEnvError as error:
            settled = error.session_lost
        finally:
            await self._leave(settled=settled)

    async def abandon(self) -> None:
        """Ends a session whose opening failed or was given up, without waiting for the server."""
        settled = self.lost is not None
        if not settled:
            self._send_close()
        await self._leave(settled=settled)

    async def _leave(self, *, settled: bool) -> None:
        self.lost = self.lost or SessionClosedError("the session was closed")
        self._quit(settled=settled)
        await self._release()

    def _check(self) -> None:
        if self.lost is not None:
            raise gone(self.lost)

    async def _ask(
        self,
        operation: session_pb2.Operation,
        *,
        what: str,
        timeout_s: float | None = None,
        limit_s: float | None = None,
        cancels: bool = True,
    ) -> session_pb2.Outcome:
        answer: asyncio.Future[session_pb2.Outcome] = self._loop.create_future()
        pending = self._post(operation, answer, timeout_s=timeout_s)
        limit_s = limit_s or self._message_timeout_s
        if timeout_s is not None:
            limit_s = timeout_s + SLACK_S
        try:
            outcome = await answer_within(answer, limit_s, what=what)
        except asyncio.CancelledError:
            if cancels:
                pending.cancelled = True
                self._cancel(operation.request_id)
            raise
        if outcome.HasField("error"):
            raise self._failure(outcome)
        return outcome

    def _post(
        self, operation: session_pb2.Operation, answer: Answer, *, timeout_s: float | None = None
    ) -> Pending:
        """Sends an operation under the next number."""
        self._check()
        self._unanswered.check_room(self._link.limits.operations_limit)
        request_id = self._last_id + 1
        operation.request_id = request_id
        operation.acknowledged_id = self._unanswered.lowest(request_id) - 1
        if timeout_s is not None:
            operation.timeout.FromNanoseconds(max(1, round(timeout_s * 1e9)))
        data = operation.SerializeToString()
        self._link.limits.check_size(data)  # before the id is used up
        self._last_id = request_id
        pending = Pending(data, answer)
        self._unanswered.add(request_id, pending)
        if self._send(data):
            pending.stream = self._boarded
        return pending

    def _send(self, data: bytes) -> bool:
        """Sends an operation, if there is a stream; tells whether there was."""
        if self._stream is None:
            return False
        self._stream.connection.send(data, self._prefix)
        return True

    def _send_close(self) -> None:
        """Ends the session without waiting for the answer."""
        self._last_id += 1
        operation = operations.close()
        operation.request_id = self._last_id
        self._send(operation.SerializeToString())

    def _cancel(self, request_id: int) -> None:
        self._send(operations.cancel(request_id).SerializeToString())

    def _failure(self, outcome: session_pb2.Outcome) -> OpenEnvError:
        error = status.decode_error(outcome.error)
        if error.session_lost:
            self.lose(error)
        return error

    # What comes by the stream (`connection.Receiver`)

    def receive(self, outcome: session_pb2.Outcome) -> None:
        """See `Receiver`."""
        pending = self._unanswered.take(outcome.request_id)
        if pending is not None:
            if self._stranded_at is not None:
                self._recover()
            if not pending.answer.done():
                pending.answer.set_result(outcome)
        elif outcome.control_id == _ATTACH:
            if outcome.HasField("error"):
                self._refused(status.decode_error(outcome.error))
            else:
                self._attached()
        elif outcome.HasField("event") and outcome.event.HasField("session_lost"):
            self.lose(status.decode_error(outcome.event.session_lost))

    # What becomes of the stream (`link.Traveller`)

    def board(self, stream: Stream) -> None:
        """See `Traveller`. Takes the session up, and sends again what has no outcome."""
        self._stream = stream
        self._boarded += 1
        self._number = stream.connection.add(self)
        self._prefix = b"\x08" + varint(self._number)  # field 1
        self._standing.set()
        if self._id:
            attach = operations.attach(self._id, resume_key=self._key, control_id=_ATTACH)
            self._send(attach.SerializeToString())
        else:
            self._attached()  # by the `open` among what is sent again
        for request_id, pending in self._unanswered.items():
            self._send(pending.data)
            pending.stream = pending.stream or self._boarded
            if pending.cancelled:
                self._cancel(request_id)

    def _attached(self) -> None:
        self._boarded_at = self._loop.time()
        self._keep_on()
        if not self._unanswered:
            self._recover()

    def _refused(self, error: OpenEnvError) -> None:
        """Learns that the session is not there; what was first sent with `attach` was not done."""
        self._unanswered.not_done_on(self._boarded)
        self.lose(error)

    def _recover(self) -> None:
        """Notes that the session goes on, after a stream was lost."""
        self._stranded_at = None
        self._keep_on()

    def _keep_on(self) -> None:
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None

    def part(self, stream: Stream) -> None:
        """See `Traveller`."""
        if self._window_s is not None:
            self.board(stream)
            self._send_close()

    def strand(self, error: OpenEnvError, *, passing: bool) -> None:
        """See `Traveller`. Waits for the next stream, for as long as the window lasts."""
        self._stream = None
        if not passing or self._window_s is None:
            self.lose(error)
            return
        self._standing.clear()
        now = self._loop.time()
        steady = self._boarded_at is not None and now - self._boarded_at >= STEADY_S
        if self._stranded_at is None or steady:
            self._stranded_at = now
        self._boarded_at = None
        self._keep_on()
        self._giving_up = self._loop.call_at(
            self._stranded_at + self._window_s, self._window_passed, self._window_s, error
        )

    def _window_passed(self, window_s: float, error: OpenEnvError) -> None:
        self.lose(
            UnavailableError(
                f"{self._target} could not be reached again within the session's window of "
                f"{window_s:g} s: {error.message}"
            )
        )

    def lose(self, error: OpenEnvError) -> None:
        """See `Traveller`."""
        if self.lost is not None:
            return
        self.lost = error
        self._unanswered.fail(error)
        self._quit(settled=True)

    def _quit(self, *, settled: bool) -> None:
        """Leaves the stream and the link."""
        self._keep_on()
        self._standing.set()
        if self._stream is not None:
            self._stream.connection.remove(self._number)
            self._stream = None
        self._link.remove(self, settled=settled)
