"""What a verdict is on each door: a number as it is, no verdict, or an error; never a made-up 0."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, ClassVar

import aiohttp
import grpc.aio
import pytest

from openenv_bridge import Bridge
from openenv_grpc.client import GenericEnvClient
from openenv_grpc.client.rpc_errors import error_of
from openenv_grpc.engine import EngineSettings, EnvironmentDefinition, SessionManager
from openenv_grpc.environment import Environment
from openenv_grpc.errors import EnvironmentFailedError
from openenv_grpc.rubrics import Rubric
from openenv_grpc.server import GrpcServer
from openenv_grpc.types import Observation, State
from openenv_grpc.v1 import episode_pb2, episode_pb2_grpc
from tests.exactly_once.counting import Token

REWARDS: dict[str, Any] = {
    "nothing": None,
    "zero": 0.0,
    "below any range": -1e308,
    "above any range": 1e308,
    "large whole number": 2**53,
    "nan": math.nan,
    "infinity": math.inf,
    "minus infinity": -math.inf,
}
BEYOND = 10**400
ERROR = "error"

Ask = Callable[[str], Awaitable[Any]]
"""Steps, and returns the reward; `ERROR` for the error of an environment without a reward."""


class Verifier(Rubric):
    def forward(self, action: Token, observation: Observation) -> float:
        raise ZeroDivisionError


class Judged(Environment[Token, Observation, State]):
    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__(rubric=Verifier())
        self.last = Token(token="nothing")

    def reset(self, seed: int | None = None, episode_id: str | None = None) -> Observation:
        return Observation()

    def step(self, action: Token, timeout_s: float | None = None) -> Observation:
        self.last = action
        return Observation(reward=self.evaluate())

    def evaluate(self) -> Any:
        if self.last.token == "crash":
            return self._apply_rubric(self.last, Observation())
        return REWARDS.get(self.last.token, BEYOND)


async def by_client(url: str, stack: AsyncExitStack) -> Ask:
    client = await stack.enter_async_context(GenericEnvClient(url))
    await client.reset()

    async def ask(token: str) -> Any:
        try:
            return (await client.step({"token": token})).reward
        except EnvironmentFailedError:
            return ERROR

    return ask


async def by_verdict(url: str, stack: AsyncExitStack) -> Ask:
    client = await stack.enter_async_context(GenericEnvClient(url))
    await client.reset()

    async def ask(token: str) -> Any:
        with contextlib.suppress(EnvironmentFailedError):
            await client.step({"token": token})
        try:
            return (await client.evaluate()).reward
        except EnvironmentFailedError:
            return ERROR

    return ask


async def by_unary_calls(url: str, stack: AsyncExitStack) -> Ask:
    channel = await stack.enter_async_context(
        grpc.aio.insecure_channel(url.removeprefix("grpc://"))
    )
    stub: Any = episode_pb2_grpc.EpisodeServiceStub(channel)
    session_id = (await stub.Open(episode_pb2.OpenRequest())).session_id

    async def ask(token: str) -> Any:
        request = episode_pb2.StepRequest(session_id=session_id)
        request.action.json = json.dumps({"token": token})
        try:
            response = await stub.Step(request)
        except grpc.aio.AioRpcError as failure:
            told = error_of(failure, target=url)
            return ERROR if isinstance(told, EnvironmentFailedError) else told
        return response.reward if response.HasField("reward") else None

    return ask


async def by_json_frames(url: str, stack: AsyncExitStack) -> Ask:
    http = await stack.enter_async_context(aiohttp.ClientSession())
    socket = await stack.enter_async_context(http.ws_connect(f"{url}/ws"))

    async def ask(token: str) -> Any:
        await socket.send_json({"type": "step", "data": {"token": token}})
        answer = await socket.receive_json()
        if answer["type"] == "error":
            assert "reward" not in answer["data"]
            return ERROR
        return answer["data"]["reward"]

    return ask


async def by_http(url: str, stack: AsyncExitStack) -> Ask:
    http = await stack.enter_async_context(aiohttp.ClientSession())

    async def ask(token: str) -> Any:
        body = {"action": {"token": token}}
        async with http.post(f"{url.replace('ws://', 'http://')}/step", json=body) as response:
            if response.status == 500:
                assert "reward" not in await response.text()
                return ERROR
            return (await response.json())["reward"]

    return ask


DOORS = {
    "grpc": ("grpc", by_client),
    "unary": ("grpc", by_unary_calls),
    "binary ws": ("ws", by_client),
    "verdict by grpc": ("grpc", by_verdict),
    "verdict by binary ws": ("ws", by_verdict),
    "json ws": ("ws", by_json_frames),
    "http": ("ws", by_http),
}
IN_JSON = {"json ws", "http"}


@pytest.fixture(params=list(DOORS))
async def door(request: pytest.FixtureRequest) -> AsyncIterator[tuple[str, Ask]]:
    definition = EnvironmentDefinition(
        factory=Judged, action_type=Token, observation_type=Observation
    )
    scheme, by = DOORS[request.param]
    async with AsyncExitStack() as stack:
        host = await stack.enter_async_context(SessionManager([definition], EngineSettings()))
        server = await stack.enter_async_context(GrpcServer(host, stop_grace_s=0.1))
        bridge = await stack.enter_async_context(Bridge(host))
        port = server.ports[0] if scheme == "grpc" else bridge.port
        async with AsyncExitStack() as client:
            yield request.param, await by(f"{scheme}://127.0.0.1:{port}", client)


async def test_a_reward_arrives_as_it_is(door: tuple[str, Ask]) -> None:
    name, ask = door
    for token, reward in REWARDS.items():
        told = await ask(token)
        if reward is None or (name in IN_JSON and not math.isfinite(reward)):
            assert told is None, token
        else:
            assert told == pytest.approx(reward, rel=0, nan_ok=True), token


async def test_a_verifier_that_crashes_is_an_error_and_no_reward(door: tuple[str, Ask]) -> None:
    _, ask = door
    assert await ask("crash") == ERROR
    assert await ask("zero") == 0.0


async def test_a_number_beyond_a_double_is_an_error_or_itself(door: tuple[str, Ask]) -> None:
    name, ask = door
    assert await ask("beyond") == (BEYOND if name == "json ws" else ERROR)
    assert await ask("zero") == 0.0
