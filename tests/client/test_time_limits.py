"""How long a client waits: what its user says, what the environment says, and the rest."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, ClassVar

import grpc
import pytest

from openenv_grpc import Budgets, DeadlineExceededError, GenericEnvClient
from openenv_grpc.client import SessionLost, time_limits, websocket_transport
from openenv_grpc.client.catalog import describe
from openenv_grpc.client.time_limits import TimeLimits
from openenv_grpc.engine import EnvironmentDefinition
from openenv_grpc.errors import Effect, Reason, SessionClosedError, SessionExpiredError
from openenv_grpc.v1 import episode_pb2, episode_pb2_grpc
from openenv_grpc.wire.budgets import read_budgets
from tests.client.conftest import serve_environments
from tests.client.environments import Gate, TurnAction, TurnEnvironment, TurnObservation

LIMIT_S = 20


class Patient(TurnEnvironment):
    """May take a minute for a step, and says so."""

    BUDGETS: ClassVar[Budgets] = Budgets(step_s=60, close_s=90, expected_step_s=0.5)


class Closed(TurnEnvironment):
    """Counts how often instances are closed."""

    times: ClassVar[int] = 0

    def close(self) -> None:
        type(self).times += 1


class Hasty(TurnEnvironment):
    """Says that no step of its takes as long as these do."""

    BUDGETS: ClassVar[Budgets] = Budgets(step_s=0.01)


def definition(factory: type[TurnEnvironment]) -> EnvironmentDefinition:
    return EnvironmentDefinition(
        factory=factory, action_type=TurnAction, observation_type=TurnObservation
    )


@pytest.fixture(params=["grpc", "ws"])
async def url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    definitions = [definition(each) for each in (TurnEnvironment, Patient, Hasty)]
    async with serve_environments(*definitions, path=tmp_path) as urls:
        yield urls[request.param]


async def test_a_client_knows_the_budgets_of_its_environment(url: str) -> None:
    client = GenericEnvClient(url, environment="Patient")
    assert client.budgets == Budgets()
    async with client:
        assert client.budgets == Patient.BUDGETS
        assert client.sync().budgets == Patient.BUDGETS
    async with GenericEnvClient(url) as silent:
        assert silent.budgets == Budgets()


async def test_a_step_beyond_the_usual_limit_survives_by_its_budget(
    url: str, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time_limits, "MESSAGE_TIMEOUT_S", 0.2)
    wait = {"op": "wait", "text": gate.name}
    async with (
        asyncio.timeout(LIMIT_S),
        GenericEnvClient(url, environment="Patient") as patient,
        GenericEnvClient(url) as silent,
    ):
        step = asyncio.create_task(patient.step(wait))
        with pytest.raises(DeadlineExceededError, match=r"within 0\.2 s"):
            await silent.step(wait)
        assert not step.done()  # which began before
        gate.opened.set()
        assert (await step).observation["turn"] == 1


async def test_a_budget_is_the_limit_of_who_sets_none(
    url: str, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time_limits, "SLACK_S", 0.2)
    async with asyncio.timeout(LIMIT_S), GenericEnvClient(url, environment="Hasty") as client:
        with pytest.raises(DeadlineExceededError, match=r"within 0\.21 s"):
            await client.step({"op": "wait", "text": gate.name})
        gate.opened.set()


async def test_what_the_caller_says_goes_before_a_budget(url: str, gate: Gate) -> None:
    wait = {"op": "wait", "text": gate.name}
    async with (
        asyncio.timeout(LIMIT_S),
        GenericEnvClient(url, message_timeout_s=0.2, environment="Patient") as client,
    ):
        with pytest.raises(DeadlineExceededError, match=r"within 0\.2 s"):
            await client.step(wait)
        gate.opened.set()
        limited = await client.step({"op": "limit"}, timeout_s=7)
        assert limited.observation["limit_s"] == 7


async def test_a_call_beside_a_close_that_comes_to_nothing_is_told_that_the_session_is_closed(
    url: str, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time_limits, "CLOSE_TIMEOUT_S", 0.1)
    client = GenericEnvClient(url)
    async with asyncio.timeout(LIMIT_S):
        await client.connect()
        step = asyncio.create_task(client.step({"op": "wait", "text": gate.name}))
        while not gate.entered.is_set():
            await asyncio.sleep(0.001)
        await client.close()
        with pytest.raises(SessionClosedError) as raised:
            await step
    assert (raised.value.effect, raised.value.session_lost) == (Effect.UNKNOWN, True)
    gate.opened.set()


async def test_a_budget_reaches_no_environment_as_a_limit(url: str) -> None:
    async with GenericEnvClient(url, environment="Patient") as client:
        assert (await client.step({"op": "limit"})).observation["limit_s"] is None


def test_each_kind_of_call_has_its_limit() -> None:
    limits = TimeLimits(None, Budgets(reset_s=300, step_s=5, close_s=40))
    assert (limits.reset_s(), limits.step_s()) == (305, 10)
    assert (limits.other_s, limits.close_s) == (305, 45)
    assert limits.step_s(ahead=2) == 10 + 2 * 305
    assert TimeLimits(None, Budgets(reset_s=300)).step_s() == 305
    assert (TimeLimits(None).step_s(3), TimeLimits(None).close_s) == (60, 10)
    assert TimeLimits(7, limits.budgets).reset_s(3) == 7


async def test_the_catalogue_and_unary_openings_tell_budgets_too(tmp_path: Path) -> None:
    async with serve_environments(definition(Patient), path=tmp_path) as urls:
        (described,) = await describe(urls["grpc"])
        assert described.budgets == {"step": 60, "close": 90, "expected_step": 0.5}
        async with grpc.aio.insecure_channel(urls["unix"]) as channel:
            episodes: Any = episode_pb2_grpc.EpisodeServiceStub(channel)
            opened = await episodes.Open(episode_pb2.OpenRequest())
            assert read_budgets(opened.budgets) == Patient.BUDGETS


@pytest.mark.parametrize("door", ["grpc", "ws", "json"])
async def test_answers_stay_with_their_steps_after_one_was_given_up(
    door: str, tmp_path: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    if door == "json":  # which is spoken where the server takes no subprotocol
        monkeypatch.setattr(websocket_transport, "SUBPROTOCOL", "another.v9")
    async with (
        asyncio.timeout(LIMIT_S),
        serve_environments(definition(TurnEnvironment), path=tmp_path) as urls,
        GenericEnvClient(urls["grpc" if door == "grpc" else "ws"], message_timeout_s=0.2) as client,
    ):
        await client.reset()
        with pytest.raises(DeadlineExceededError):
            await client.step({"op": "wait", "text": gate.name})
        asyncio.get_running_loop().call_later(0.05, gate.opened.set)
        for number in range(21):
            token = f"token {number}"
            assert (await client.step({"text": token})).observation["text"] == token


async def test_a_session_that_idles_is_ended_once_and_says_so_but_never_amid_a_step(
    tmp_path: Path, gate: Gate
) -> None:
    async with (
        asyncio.timeout(LIMIT_S),
        serve_environments(definition(Closed), path=tmp_path, session_timeout_s=0.4) as urls,
        GenericEnvClient(urls["grpc"], events=True) as client,
    ):
        step = asyncio.create_task(client.step({"op": "wait", "text": gate.name}))
        await asyncio.to_thread(gate.entered.wait, 5)
        await asyncio.sleep(1)  # longer than it may idle
        gate.opened.set()
        assert (await step).observation["turn"] == 1
        assert Closed.times == 0
        lost = await anext(client.events())
        assert isinstance(lost, SessionLost)
        assert lost.error.reason is Reason.SESSION_EXPIRED
        with pytest.raises(SessionExpiredError, match=r"idled for 0\.4 s"):
            await client.step({})
        assert (await client.reset()).observation["turn"] == 0
        assert Closed.times == 1
