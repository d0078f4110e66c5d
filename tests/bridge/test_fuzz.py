"""Whatever comes over `/ws`: no crash, no hang, no answer to another's question."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import aiohttp
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openenv_bridge.binary_ws import SUBPROTOCOL
from openenv_grpc.engine import EnvironmentDefinition
from openenv_grpc.v1 import session_pb2
from tests.bridge.conftest import Serve, Served, no_sessions
from tests.environments import Count, Countdown, Counted

EXAMPLES = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
MARKER = "the last one"
LIMIT_S = 10

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)
frames = st.fixed_dictionaries(
    {"type": st.sampled_from(["reset", "step", "state", "mcp", "bogus"]) | values},
    optional={
        "data": st.fixed_dictionaries({"by": st.integers(-3, 3)}) | values,
        "request_id": st.integers(0, 9) | values,
        "timeout_s": st.floats(0.5, 5) | values,
    },
).map(json.dumps)
texts = frames | values.map(json.dumps) | st.text(max_size=40)

payloads = st.sampled_from(['{"by":1}', '{"by":"x"}', "", "[", '{"by":NaN}', '{"text":"a"}'])
operations = st.builds(
    lambda session, request_id, acknowledged, arm, text: _operation(
        session, request_id, acknowledged, arm, text
    ),
    st.integers(-2, 3),
    st.integers(-1, 5),
    st.integers(-1, 5),
    st.sampled_from(
        ["step", "reset_episode", "get_state", "open", "attach", "close", "cancel", "evaluate", ""]
    ),
    payloads,
)


def _operation(
    session: int, request_id: int, acknowledged: int, arm: str, text: str
) -> session_pb2.Operation:
    operation = session_pb2.Operation(
        session=session, request_id=request_id, acknowledged_id=acknowledged
    )
    if arm:
        getattr(operation, arm).SetInParent()
    if arm == "step":
        operation.step.action.json = text
    if arm == "reset_episode" and text:
        operation.reset_episode.options.json = text
    return operation


class World:
    """A server that outlives the examples, and the loop that it runs on."""

    def __init__(self, serve: Serve) -> None:
        self.runner = asyncio.Runner()
        self._stack = AsyncExitStack()
        definition = EnvironmentDefinition(
            factory=Countdown, action_type=Count, observation_type=Counted, max_sessions=64
        )
        self.served: Served = self.runner.run(self._stack.enter_async_context(serve(definition)))

    def close(self) -> None:
        self.runner.run(no_sessions(self.served.manager))
        self.runner.run(self._stack.aclose())
        self.runner.close()


@pytest.fixture
def world(serve: Serve) -> Iterator[World]:
    world = World(serve)
    yield world
    world.close()


async def told(socket: aiohttp.ClientWebSocketResponse) -> list[dict[str, Any]]:
    """Reads answers up to that of the marker."""
    answers: list[dict[str, Any]] = []
    async with asyncio.timeout(LIMIT_S):
        while not answers or answers[-1].get("request_id") != MARKER:
            answers.append(json.loads(await socket.receive_str()))
    return answers


@EXAMPLES
@given(sent=st.lists(texts, max_size=8))
def test_every_text_is_answered_in_its_turn_or_refused(world: World, sent: list[str]) -> None:
    async def play() -> list[dict[str, Any]]:
        async with world.served.ws() as socket:
            for text in sent:
                await socket.send_str(text)
            await socket.send_str(json.dumps({"type": "state", "request_id": MARKER}))
            return await told(socket)

    answers = world.runner.run(play())
    assert answers[-1]["type"] == "state"
    assert all(isinstance(answer.get("type", ""), str) for answer in answers)
    asked = [frame.get("request_id") for frame in map(_frame, sent) if isinstance(frame, dict)]
    known = iter(asked)
    for answer in answers[:-1]:
        if "request_id" in answer:  # in the order of the questions, and of no other
            assert any(_same(answer["request_id"], number) for number in known), answer


def _frame(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _same(answered: Any, asked: Any) -> bool:
    return type(answered) is type(asked) and (answered == asked or asked != asked)


async def served_still(world: World) -> None:
    """Checks that an episode can be had, over a connection of its own."""
    async with world.served.ws() as socket:
        await socket.send_str(json.dumps({"type": "reset", "request_id": MARKER}))
        assert (await told(socket))[-1]["type"] == "observation"


@EXAMPLES
@given(message=st.binary(max_size=60))
def test_bytes_that_are_no_message_harm_nobody_else(world: World, message: bytes) -> None:
    async def play() -> None:
        async with world.served.ws(protocols=(SUBPROTOCOL,)) as socket:
            await socket.send_bytes(message)
        await served_still(world)

    world.runner.run(play())


@EXAMPLES
@given(sent=st.lists(operations, min_size=1, max_size=10), joined=st.booleans())
def test_each_operation_has_one_outcome_under_its_own_number(
    world: World, sent: list[session_pb2.Operation], joined: bool
) -> None:
    async def play() -> list[session_pb2.Outcome]:
        outcomes: list[session_pb2.Outcome] = []
        async with (
            asyncio.timeout(LIMIT_S),
            world.served.ws(protocols=(SUBPROTOCOL,)) as socket,
        ):
            for operations in [sent] if joined else [[operation] for operation in sent]:
                request = session_pb2.ConnectRequest(operations=operations)
                await socket.send_bytes(request.SerializeToString())
            while len(outcomes) < len(sent):
                came = session_pb2.ConnectResponse.FromString(await socket.receive_bytes())
                outcomes.extend(came.outcomes)
        await served_still(world)
        return outcomes

    outcomes = world.runner.run(play())
    assert len(outcomes) == len(sent)
    numbered = [each for each in sent if each.request_id]
    for outcome in outcomes:
        assert outcome.WhichOneof("kind") is not None
        same = [each for each in sent if each.session == outcome.session]
        assert same, outcome
        asked = {each.request_id for each in same if each in numbered}
        given_by_server = any(not each.request_id for each in same)
        assert outcome.request_id in asked or given_by_server or not outcome.request_id, outcome
