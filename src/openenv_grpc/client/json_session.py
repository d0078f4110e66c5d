"""A session on a socket of its own, in the reference's JSON protocol."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Mapping
from typing import Any, Protocol

from openenv_grpc.client import json_errors, tool_answers
from openenv_grpc.client.agent_access import AgentAccess
from openenv_grpc.client.outcomes import Evaluation, Observed
from openenv_grpc.client.pending import Posted
from openenv_grpc.client.remote_session import (
    Actions,
    answer_within,
    gone,
    in_flight,
)
from openenv_grpc.client.time_limits import TimeLimits
from openenv_grpc.errors import (
    Effect,
    InvalidRequestError,
    NotSupportedError,
    OpenEnvError,
    ProtocolViolationError,
    SessionClosedError,
    UnavailableError,
)
from openenv_grpc.serialization import dump_json, parse_json_object
from openenv_grpc.tools import Tool
from openenv_grpc.types import Budgets, JsonValue

Answer = dict[str, Any]
Waiting = asyncio.Future[Answer]


class FrameSocket(Protocol):
    """Carries text frames."""

    async def read_frame(self) -> str | bytes | None:
        """Returns the next frame, or `None` at the end."""
        ...

    async def write_text(self, text: str) -> None:
        """Sends a frame."""
        ...

    async def close(self) -> None:
        """Ends it."""
        ...


class JsonSession:
    """Pairs frames with answers by their order, which is all that the protocol gives.

    Who gives up waiting leaves its place in the line, so that the late answer is not taken for the
    next one's.
    """

    budgets = Budgets()
    """See `RemoteSession`. The protocol tells nothing of them."""

    def __init__(
        self, socket: FrameSocket, *, target: str, message_timeout_s: float | None
    ) -> None:
        self._socket = socket
        self._target = target
        self.limits = TimeLimits(message_timeout_s)
        self._waiting: deque[Waiting] = deque()
        self._frames: asyncio.Queue[str] = asyncio.Queue()
        self._last_rpc_id = 0
        self._posted: set[asyncio.Task[None]] = set()  # they end with the session, if not before
        self.lost: OpenEnvError | None = None
        loop = asyncio.get_running_loop()
        self._reader = loop.create_task(self._receive(), name="openenv-grpc reader")
        self._writer = loop.create_task(self._send(), name="openenv-grpc writer")

    @property
    def shares_memory(self) -> bool:
        """See `RemoteSession`. JSON always goes by the socket."""
        return False

    async def reset(
        self, keywords: Mapping[str, JsonValue], *, timeout_s: float | None
    ) -> dict[str, Any]:
        """See `RemoteSession`. Environments that take a `timeout_s` are handed it."""
        extra = {} if timeout_s is None else {"timeout_s": timeout_s}
        frame = _frame("reset", {**keywords, **extra}, what="reset's keywords")
        return _observed(await self._ask(frame, "observation", what="reset", timeout_s=timeout_s))

    async def step(
        self,
        action: Mapping[str, JsonValue],
        keywords: Mapping[str, JsonValue],
        *,
        timeout_s: float | None,
    ) -> dict[str, Any]:
        """See `RemoteSession`. The limit is the client's alone: the protocol cannot carry it."""
        if keywords:
            raise NotSupportedError(
                f"{self._target} speaks the reference's JSON protocol, where a step has nothing "
                f"but its action; leave out {', '.join(sorted(keywords))}"
            )
        frame = _frame("step", action, what="the action")
        return _observed(await self._ask(frame, "observation", what="step", timeout_s=timeout_s))

    def post_reset(self, keywords: Mapping[str, JsonValue], place: Posted) -> None:
        """See `RemoteSession`."""
        self._post(self.reset(keywords, timeout_s=None), place)

    def post_step(self, actions: Actions, row: int, place: Posted) -> None:
        """See `RemoteSession`."""
        self._post(self.step(actions.fields(row), {}, timeout_s=None), place)

    def _post(self, asking: Coroutine[Any, Any, dict[str, Any]], place: Posted) -> None:
        async def ask() -> None:
            try:
                payload = await asking
            except OpenEnvError as error:
                place.fail(error)
            else:
                place.fill(_observed_of(payload))

        task = asyncio.get_running_loop().create_task(ask(), name="openenv-grpc posted")
        self._posted.add(task)
        task.add_done_callback(self._posted.discard)

    async def state(self) -> dict[str, Any]:
        """See `RemoteSession`."""
        return await self._ask('{"type":"state"}', "state", what="state")

    async def evaluate(self) -> Evaluation:
        """See `RemoteSession`."""
        raise NotSupportedError(
            f"{self._target} speaks the reference's JSON protocol, which has no evaluate"
        )

    async def snapshot(self) -> str:
        """See `RemoteSession`."""
        raise NotSupportedError(
            f"{self._target} speaks the reference's JSON protocol, which has no snapshots"
        )

    def agent_access(self) -> AgentAccess:
        """See `RemoteSession`."""
        raise NotSupportedError(
            f"{self._target} speaks the reference's JSON protocol, which has no access for agents"
        )

    async def list_tools(self) -> list[Tool]:
        """See `RemoteSession`."""
        result = await self._rpc("tools/list", {}, tool="")
        if not isinstance(result, dict) or "tools" not in result:
            raise ProtocolViolationError("the server sent a list of tools that is none")
        return tool_answers.read_tools(result["tools"])

    async def call_tool(self, name: str, arguments: Mapping[str, JsonValue]) -> JsonValue:
        """See `RemoteSession`."""
        params = {"name": name, "arguments": dict(arguments)}
        result = await self._rpc("tools/call", params, tool=name)
        if isinstance(result, dict) and "tool_name" in result:
            return tool_answers.read_call(name, result)  # a step in disguise
        return tool_answers.read_result(name, result)

    async def close(self) -> None:
        """See `RemoteSession`."""
        if self.lost is None:
            self._frames.put_nowait('{"type":"close"}')
            # The server closes the socket when the environment is closed and its slot is free.
            await asyncio.wait((self._reader,), timeout=self.limits.close_s)
        self._lose(SessionClosedError("the session was closed"))
        self._reader.cancel()
        await asyncio.wait((self._reader, self._writer))

    async def _rpc(self, method: str, params: dict[str, JsonValue], *, tool: str) -> JsonValue:
        self._last_rpc_id += 1
        request = {"jsonrpc": "2.0", "id": self._last_rpc_id, "method": method, "params": params}
        frame = _frame("mcp", request, what="the tool's arguments")
        response = await self._ask(frame, "mcp", what=method)
        failure = response.get("error")
        if failure:
            raise json_errors.rpc_error_of(failure, tool=tool)
        return response.get("result")

    async def _ask(
        self, frame: str, kind: str, *, what: str, timeout_s: float | None = None
    ) -> Answer:
        if self.lost is not None:
            raise gone(self.lost)
        waiting: Waiting = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        self._frames.put_nowait(frame)
        limit_s = self.limits.other_s if timeout_s is None else timeout_s
        answer = await answer_within(waiting, limit_s, what=what)
        data = answer.get("data")
        if answer.get("type") != kind or not isinstance(data, dict):
            error = ProtocolViolationError(
                f"{self._target} answered {what} with a frame of type {answer.get('type')!r}",
                effect=Effect.UNKNOWN,
                session_lost=True,  # whose answer is whose can no longer be told
            )
            self._lose(error)
            raise error
        return data

    async def _send(self) -> None:
        try:
            while True:
                await self._socket.write_text(await self._frames.get())
        except OpenEnvError:
            pass  # the reader meets the end of the socket too, and knows more of it

    async def _receive(self) -> None:
        lost: OpenEnvError = UnavailableError(f"{self._target} closed the connection")
        try:
            while self.lost is None and (frame := await self._socket.read_frame()) is not None:
                self._take(parse_json_object(frame, what="server's frame"))
        except InvalidRequestError as error:
            lost = ProtocolViolationError(f"{self._target} sent a broken frame: {error.message}")
        except OpenEnvError as error:
            lost = error
        finally:
            self._lose(lost)
            self._writer.cancel()
            await self._socket.close()

    def _take(self, frame: Answer) -> None:
        """Gives a frame to the one who waits longest."""
        waiting = self._waiting.popleft() if self._waiting else None
        if frame.get("type") != "error":
            if waiting is not None and not waiting.done():
                waiting.set_result(frame)
            return
        error = json_errors.error_of(frame.get("data") or {})
        if waiting is not None and not waiting.done():
            waiting.set_exception(error)
        if error.session_lost:
            self._lose(error)

    def _lose(self, error: OpenEnvError) -> None:
        if self.lost is not None:
            return
        self.lost = error
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_exception(in_flight(error))
        self._waiting.clear()


def _frame(kind: str, data: Mapping[str, JsonValue], *, what: str) -> str:
    """Writes a frame. Arrays become lists of numbers, as the protocol has nothing better."""
    try:
        return f'{{"type":"{kind}","data":{dump_json(data).decode()}}}'
    except OpenEnvError as error:
        raise InvalidRequestError(f"{what} cannot be sent: {error.message}") from error


def _observed(data: Answer) -> dict[str, Any]:
    """Adds what our own servers tell of an observation and the reference's do not."""
    done = bool(data.get("done", False))
    truncated = bool(data.get("truncated", False))
    return {
        **data,
        "observation": data.get("observation") or {},
        "done": done,
        "terminated": done and not truncated,
        "truncated": truncated,
        "info": {},
    }


def _observed_of(payload: dict[str, Any]) -> Observed:
    return (
        payload["observation"],
        payload.get("reward"),
        payload["terminated"],
        payload["truncated"],
        payload["info"],
    )
