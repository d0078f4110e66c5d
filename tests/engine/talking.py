"""How the engine's tests talk to sessions: a codec of JSON, a caller, and a clock of their own."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any

from openenv_grpc.engine import EngineSettings, EnvironmentDefinition, SessionManager
from openenv_grpc.environment_spec import EnvironmentSpec
from openenv_grpc.errors import OpenEnvError
from openenv_grpc.operations import (
    Closed,
    Evaluated,
    Kind,
    Observed,
    Opened,
    Operation,
    PromptsListed,
    Reply,
    ResetArguments,
    Result,
    StateRead,
    StepArguments,
    ToolCall,
    ToolsListed,
)
from openenv_grpc.serialization import BESIDE, dump_json, model_fields
from openenv_grpc.sessions import SessionPort, ask
from openenv_grpc.tools import PromptAnswer, ResourceList, ResourceRead, ToolAnswer
from openenv_grpc.types import EnvironmentMetadata, ServerMode
from tests.environments import Count, Counted


class JsonCodec:
    """Payloads are Python values, answers are JSON."""

    def __init__(self, *, strict: bool = False) -> None:
        self.strict = strict

    def read_reset(self, operation: Operation, spec: EnvironmentSpec) -> ResetArguments:
        return ResetArguments(keywords=operation.payload or {}, strict=self.strict)

    def read_step(self, operation: Operation, spec: EnvironmentSpec) -> StepArguments:
        payload = dict(operation.payload or {})
        keywords = payload.pop("keywords", {})
        action = spec.action_reader.from_value(payload)
        return StepArguments(action=action, keywords=keywords, strict=self.strict)

    def read_tool_call(self, operation: Operation, spec: EnvironmentSpec) -> ToolCall:
        name, arguments = operation.payload
        return ToolCall(name=name, arguments=arguments)

    def write(self, operation: Operation, result: Result, spec: EnvironmentSpec) -> bytes:
        return dump_json(_fields(result))

    def write_error(
        self, operation: Operation, error: OpenEnvError, spec: EnvironmentSpec | None
    ) -> bytes:
        return dump_json({"error": error.reason.name})


def _fields(result: Any) -> Any:
    match result:
        case Observed():
            return {
                **model_fields(result.observation, beside=BESIDE),
                "reward": result.reward,
                "done": result.done,
                "truncated": result.truncated,
                "rewards": dict(result.rewards),
                "episode_id": result.episode_id,
            }
        case StateRead():
            return {
                "state": model_fields(result.state),
                "episode_id": result.episode_id,
                "step_count": result.step_count,
            }
        case Evaluated():
            return {
                "reward": result.reward,
                "rewards": dict(result.rewards),
                "done": result.done,
                "truncated": result.truncated,
            }
        case ToolsListed():
            return {"tools": [tool.name for tool in result.tools], "by_step": result.by_step}
        case ToolAnswer():
            return {"text": result.text(), "data": result.data, "is_error": result.is_error}
        case Opened():
            return {"session_id": result.session_id, "environment": result.environment}
        case Closed():
            return {"step_count": result.step_count}
        case EnvironmentMetadata():
            return model_fields(result)
        case ResourceList() | ResourceRead() | PromptAnswer() | PromptsListed():
            return asdict(result)
        case _:
            return result


CODEC = JsonCodec()

LIMIT_S = 30
"""Long enough for the import of a library on a busy machine; no test waits for it to pass."""


class Caller:
    """Asks a session and waits for its answers."""

    def __init__(self, session: SessionPort, *, codec: JsonCodec = CODEC) -> None:
        self.session = session
        self.codec = codec

    def operation(self, kind: Kind, payload: Any = None, **fields: Any) -> Operation:
        return Operation(kind=kind, codec=self.codec, payload=payload, **fields)

    def send(self, kind: Kind, payload: Any = None, **fields: Any) -> asyncio.Future[Reply]:
        """Submits an operation; the future gets its reply."""
        return send(self.session, self.operation(kind, payload, **fields))

    async def ask(self, kind: Kind, payload: Any = None, **fields: Any) -> Reply:
        async with asyncio.timeout(LIMIT_S):
            return await ask(self.session, self.operation(kind, payload, **fields))

    async def do(self, kind: Kind, payload: Any = None, **fields: Any) -> Any:
        """Returns what an operation led to, or raises its error."""
        reply = await self.ask(kind, payload, **fields)
        if reply.error is not None:
            raise reply.error
        return json.loads(reply.content)

    async def reset(self, **keywords: Any) -> Any:
        return await self.do(Kind.RESET, keywords)

    async def step(self, text: str = "", **fields: Any) -> Any:
        return await self.do(Kind.STEP, {"text": text}, **fields)

    async def close(self) -> Any:
        return await self.do(Kind.CLOSE)


def send(session: SessionPort, operation: Operation) -> asyncio.Future[Reply]:
    reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
    session.submit(operation, reply.set_result)
    return reply


async def received(reply: asyncio.Future[Reply]) -> Reply:
    async with asyncio.timeout(LIMIT_S):
        return await reply


async def reason(reply: asyncio.Future[Reply]) -> str:
    """Waits for an error and returns its reason."""
    error = (await received(reply)).error
    assert error is not None
    return error.reason.name


def definition(factory: Callable[[], Any], **fields: Any) -> EnvironmentDefinition:
    given: dict[str, Any] = {"action_type": Count, "observation_type": Counted, **fields}
    return EnvironmentDefinition(factory=factory, **given)


class ManualClock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._order = itertools.count()
        self._due: list[tuple[float, int, ManualTimer]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[..., Any], *arguments: Any) -> Any:
        timer = ManualTimer(callback, arguments)
        heapq.heappush(self._due, (self.now + delay, next(self._order), timer))
        return timer

    def advance(self, seconds: float) -> None:
        """Lets time pass, and calls what is due, in its order."""
        end = self.now + seconds
        while self._due and self._due[0][0] <= end:
            self.now, _, timer = heapq.heappop(self._due)
            if not timer.cancelled:
                timer.callback(*timer.arguments)
        self.now = end

    @property
    def waiting(self) -> int:
        return sum(not timer.cancelled for _, _, timer in self._due)


class ManualTimer:
    def __init__(self, callback: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.callback = callback
        self.arguments = arguments
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


@asynccontextmanager
async def running(
    *factories: Callable[[], Any],
    clock: ManualClock | None = None,
    settings: EngineSettings | None = None,
    mode: ServerMode = ServerMode.SIMULATION,
    **fields: Any,
) -> AsyncIterator[SessionManager]:
    """Runs a manager of some environments."""
    definitions = [definition(factory, mode=mode, **fields) for factory in factories]
    async with SessionManager(definitions, settings, clock=clock) as manager:
        yield manager


@asynccontextmanager
async def opened(factory: Callable[[], Any], **options: Any) -> AsyncIterator[Caller]:
    """Opens one session of an environment."""
    codec = options.pop("codec", CODEC)
    async with running(factory, **options) as manager, manager.attach(peer="test") as attachment:
        yield Caller(attachment.open(""), codec=codec)
