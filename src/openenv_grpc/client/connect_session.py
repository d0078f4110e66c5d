"""A session on a shared link, which outlives its streams: nothing is lost, nothing done twice."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Mapping
from typing import Any

from openenv_grpc.client import operations, tool_results
from openenv_grpc.client.agent_access import AGENT_ACCESS, AgentAccess
from openenv_grpc.client.crossing import is_taken_over
from openenv_grpc.client.events import Audience
from openenv_grpc.client.listening import Listening
from openenv_grpc.client.moving import FindBerth, Moving
from openenv_grpc.client.opening import OPENING_ID, QUEUE, Opening
from openenv_grpc.client.outcomes import Evaluation, payload_of
from openenv_grpc.client.patience import Patience
from openenv_grpc.client.pending import Call, Pending, Posted
from openenv_grpc.client.remote_session import Actions, gone, in_flight
from openenv_grpc.client.ride import ATTACH, Berth, Ride
from openenv_grpc.client.time_limits import TimeLimits
from openenv_grpc.client.unanswered import Unanswered
from openenv_grpc.errors import (
    NotSupportedError,
    OpenEnvError,
    SessionClosedError,
)
from openenv_grpc.tools import Tool
from openenv_grpc.tracing import TRACEPARENT
from openenv_grpc.types import Budgets, JsonValue
from openenv_grpc.v1 import session_pb2
from openenv_grpc.wire import budgets, status
from openenv_grpc.wire.peeling import Peeled

SLACK_S = 2.0
"""How much longer than an operation's own limit the client waits for the server to say so."""


class ConnectSession:
    """Numbers its operations from 1, and pairs their outcomes with those who wait.

    When a stream is lost, operations without an outcome are sent again on the next one, with the
    same numbers, by which the server knows what it has done already.
    """

    def __init__(
        self,
        berth: Berth,
        *,
        find_other: FindBerth,
        target: str,
        limits: TimeLimits,
        resume_window_s: float | None,
        queue_timeout_s: float,
        audience: Audience,
    ) -> None:
        """Takes its place on a link; `find_other` gives one on that for large outcomes.

        Raises:
            OpenEnvError: the link has lost its stream.
        """
        self.limits = limits
        features = berth.link.limits.features
        self._listening = Listening(audience, features, target=target)
        self._loop = asyncio.get_running_loop()
        self._opening = Opening(target=target, queue_timeout_s=queue_timeout_s)
        self._key = secrets.token_urlsafe(24)
        self._id = ""  # until it is known, what was sent is sent again from the `open` on
        self._last_id = 0
        self._unanswered = Unanswered()
        self._patience = Patience(self._unanswered)
        self._agent_access: AgentAccess | None = None
        self.lost: OpenEnvError | None = None
        window_s = resume_window_s if "resume" in features else None
        self._ride = Ride(self, self._unanswered, berth, target=target, window_s=window_s)
        self._moving = Moving(self._ride, self, find_other, target=target)
        self._ride.start()

    async def open(
        self, environment: str, *, snapshot_id: str = "", group: operations.Group | None = None
    ) -> None:
        """Opens the session on the server. Raises an `OpenEnvError` if it does not want to."""
        features = self._ride.berth.link.limits.features
        offered = AGENT_ACCESS in features
        operation = operations.open_session(
            environment,
            agent_access=offered,
            resume_key=self._key,
            resume_window_s=self._ride.window_s,
            queue_timeout_s=self._opening.queue_timeout_s if QUEUE in features else None,
            progress=self._listening.progress,
            events=self._listening.events,
            snapshot_id=snapshot_id,
            group=group if QUEUE in features else None,
        )
        call = Call(self._loop.create_future())
        self._post(operation, call, "open")
        waiting = self._opening.answer_within(call.answer, self.limits.other_s)
        opened = (await self._outcome(call, waiting)).open
        self._id = opened.session_id
        told = budgets.read_budgets(opened.budgets)
        self.limits = TimeLimits(self.limits.message_timeout_s, told)
        self._ride.window_s = operations.granted_window_s(opened)
        if offered:
            self._agent_access = operations.agent_access(opened)

    @property
    def budgets(self) -> Budgets:
        """See `RemoteSession`."""
        return self.limits.budgets

    @property
    def shares_memory(self) -> bool:
        """See `RemoteSession`."""
        return self._ride.berth.link.limits.shares_memory

    async def reset(
        self, keywords: Mapping[str, JsonValue], *, timeout_s: float | None
    ) -> dict[str, Any]:
        """See `RemoteSession`."""
        operation = operations.reset_episode(keywords)
        limit_s = self.limits.reset_s(len(self._unanswered))
        call = self._call(operation, "reset", limit_s, timeout_s)
        outcome = await self._outcome(call)
        return payload_of(operations.begun(outcome.reset_episode, call.peeled))

    async def step(
        self,
        action: Mapping[str, JsonValue],
        keywords: Mapping[str, JsonValue],
        *,
        timeout_s: float | None,
    ) -> dict[str, Any]:
        """See `RemoteSession`."""
        operation = operations.step(operations.payload(action), keywords)
        limit_s = self.limits.step_s(len(self._unanswered))
        call = self._call(operation, "step", limit_s, timeout_s)
        outcome = await self._outcome(call)
        return payload_of(operations.stepped(outcome.step, call.peeled))

    def post_reset(self, keywords: Mapping[str, JsonValue], place: Posted) -> None:
        """See `RemoteSession`."""
        self._post(operations.reset_episode(keywords), place, "reset")

    def post_step(self, actions: Actions, row: int, place: Posted) -> None:
        """See `RemoteSession`."""
        self._post(operations.step(actions.payload(row), {}), place, "step")

    async def state(self) -> dict[str, Any]:
        """See `RemoteSession`."""
        outcome = await self._ask(operations.get_state(), what="state")
        return operations.state_read(outcome.get_state)

    async def evaluate(self) -> Evaluation:
        """See `RemoteSession`."""
        outcome = await self._ask(operations.evaluate(), what="evaluate")
        return operations.evaluated(outcome.evaluate)

    async def snapshot(self) -> str:
        """See `RemoteSession`."""
        outcome = await self._ask(operations.snapshot(), what="snapshot")
        return outcome.snapshot.snapshot_id

    def agent_access(self) -> AgentAccess:
        """See `RemoteSession`."""
        if self.lost is not None:
            raise gone(self.lost)
        if self._agent_access is None:
            raise NotSupportedError("the server offers no access for agents")
        return self._agent_access

    async def list_tools(self) -> list[Tool]:
        """See `RemoteSession`."""
        outcome = await self._ask(operations.list_tools(), what="list_tools")
        return tool_results.listed(outcome.list_tools)

    async def call_tool(self, name: str, arguments: Mapping[str, JsonValue]) -> JsonValue:
        """See `RemoteSession`. A call whose connection was lost is sent again, not done again."""
        operation = operations.call_tool(name, arguments)
        outcome = await self._ask(operation, what=f"the tool {name}")
        return tool_results.called(name, outcome.call_tool.result)

    async def close(self) -> None:
        """See `RemoteSession`. A session that is gone counts as closed."""
        settled = False
        try:
            if self.lost is None:
                await self._ask(
                    operations.close(), what="close", limit_s=self.limits.close_s, cancels=False
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
            self._cancel(OPENING_ID)  # else the `close` would wait for it
            self.close_at_once()
        await self._leave(settled=settled)

    async def _leave(self, *, settled: bool) -> None:
        self.lost = self.lost or SessionClosedError("the session was closed")
        for call in self._unanswered.calls():  # beside a `close` that came to nothing
            call.fail(in_flight(self.lost, arrived=call.stream > 0))
        self._quit(settled=settled)
        try:
            await self._moving.stopped()
        finally:
            await self._ride.berth.release()

    async def _ask(
        self, operation: bytes, *, what: str, limit_s: float | None = None, cancels: bool = True
    ) -> session_pb2.Outcome:
        call = self._call(operation, what, limit_s or self.limits.other_s)
        return await self._outcome(call, cancels=cancels)

    def _call(
        self, operation: bytes, what: str, limit_s: float, timeout_s: float | None = None
    ) -> Call:
        """Asks, to wait no longer than `limit_s`, or little longer than the server may take."""
        call = Call(self._loop.create_future())
        self._post(operation, call, what, timeout_s)
        self._patience.allow(call, limit_s if timeout_s is None else timeout_s + SLACK_S)
        return call

    async def _outcome(
        self,
        call: Call,
        answer: Awaitable[session_pb2.Outcome] | None = None,
        *,
        cancels: bool = True,
    ) -> session_pb2.Outcome:
        """Waits for the outcome of a call, and withdraws that if its caller is cancelled."""
        try:
            outcome = await (call.answer if answer is None else answer)
        except asyncio.CancelledError:
            if cancels:
                call.cancelled = True
                self._cancel(call.request_id)
            raise
        if outcome.HasField("error"):
            raise self.failure(outcome)
        return outcome

    def _post(
        self, operation: bytes, pending: Pending, what: str, timeout_s: float | None = None
    ) -> None:
        """Sends an operation under the next number."""
        if self.lost is not None:
            raise gone(self.lost)
        ride, unanswered = self._ride, self._unanswered.by_id
        limits = ride.berth.link.limits
        if 0 < limits.operations_limit <= len(unanswered):
            raise self._unanswered.no_room()
        request_id = self._last_id + 1
        acknowledged_id = next(iter(unanswered), request_id) - 1
        data = operations.numbered(
            operation, request_id, acknowledged_id, timeout_s, TRACEPARENT.get()
        )
        if len(data) > limits.operation_bytes:  # before the id is used up
            raise limits.too_large(data)
        self._last_id = request_id
        pending.what, pending.request_id, pending.data = what, request_id, data
        pending.stream, pending.cancelled, pending.peeled = 0, False, None
        unanswered[request_id] = pending
        if ride.send(data):
            pending.stream = ride.streams

    def close_at_once(self) -> None:
        """See `Rider`."""
        self._last_id += 1
        self._ride.send(operations.numbered(operations.close(), self._last_id, 0))

    def _cancel(self, request_id: int) -> None:
        self._ride.send(operations.cancel(request_id))

    def failure(self, outcome: session_pb2.Outcome) -> OpenEnvError:
        """See `Failing`."""
        error = status.decode_error(outcome.error)
        if error.session_lost:
            self.lose(error)
        return error

    # What comes by the stream, and becomes of it (`ride.Rider`)

    def receive(self, outcome: session_pb2.Outcome, kind: str | None) -> None:
        """See `Receiver`."""
        if kind == "progress":
            self._hear(outcome)
            return
        pending = self._unanswered.by_id.pop(outcome.request_id, None)
        if pending is not None:
            if self._ride.restless:
                self._ride.settle()
            pending.take(outcome, kind, self)
        elif outcome.control_id == ATTACH:
            if kind == "error":
                self._ride.refused(status.decode_error(outcome.error))
            else:
                self._ride.attached()
        elif kind == "event":
            if not outcome.event.HasField("session_lost"):
                self._listening.hear_event(outcome.event)
            elif not (is_taken_over(outcome) and self._moving.retakes()):
                self.lose(status.decode_error(outcome.event.session_lost))

    def _hear(self, outcome: session_pb2.Outcome) -> None:
        self._ride.settle()
        if outcome.request_id == OPENING_ID:
            self._opening.told(outcome.progress)
        call = self._unanswered.what(outcome.request_id)
        self._listening.hear_progress(outcome.progress, call=call)

    def peel(self, outcome: session_pb2.Outcome, peeled: Peeled) -> None:
        """See `Receiver`."""
        pending = self._unanswered.by_id.get(outcome.request_id)
        if pending is not None:
            pending.peeled = peeled

    def outgrow(self) -> None:
        """See `Receiver`."""
        self._moving.outgrow()

    def attach(self) -> bytes | None:
        """See `Rider`."""
        if not self._id:
            return None
        return operations.attach(
            self._id,
            resume_key=self._key,
            control_id=ATTACH,
            progress=self._listening.progress,
            events=self._listening.events,
        )

    def lose(self, error: OpenEnvError) -> None:
        """See `Rider`."""
        if self.lost is not None:
            return
        self.lost = error
        self._listening.lost(error)
        self._unanswered.fail(error)
        self._quit(settled=True)

    def _quit(self, *, settled: bool) -> None:
        """Leaves the stream and the link."""
        self._patience.stop()
        self._moving.stop()
        self._ride.leave(settled=settled)
