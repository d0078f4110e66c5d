"""`EpisodeService`: sessions by unary calls."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import grpc
import pytest

from openenv_grpc.engine import EnvironmentDefinition, SessionManager
from openenv_grpc.errors import Effect, OpenEnvError
from openenv_grpc.server import GrpcServer
from openenv_grpc.sessions import SessionState
from openenv_grpc.v1 import episode_pb2, episode_pb2_grpc, payload_pb2
from openenv_grpc.wire.status import decode_status
from tests.environments import Count, Counted, Gates, OwnBooks


@pytest.fixture
def stub(channel: grpc.aio.Channel) -> episode_pb2_grpc.EpisodeServiceAsyncStub:
    return episode_pb2_grpc.EpisodeServiceStub(channel)


async def failure(call: Any) -> tuple[grpc.StatusCode, OpenEnvError]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    details = dict(caught.value.trailing_metadata())["grpc-status-details-bin"]
    error = decode_status(details)
    assert error is not None
    assert caught.value.details() == error.message
    return caught.value.code(), error


def step(session_id: str, action: str = '{"by":1}', **fields: Any) -> episode_pb2.StepRequest:
    return episode_pb2.StepRequest(
        session_id=session_id, action=payload_pb2.Payload(json=action), **fields
    )


async def test_an_episode_by_unary_calls(stub: Any, host: SessionManager) -> None:
    opened = await stub.Open(episode_pb2.OpenRequest())
    session = opened.session_id
    assert opened.environment == "countdown"
    reset = await stub.Reset(
        episode_pb2.ResetRequest(
            session_id=session,
            seed=3,
            episode_id="e1",
            options=payload_pb2.Payload(json='{"start":1}'),
        )
    )
    assert reset.episode_id == "e1"
    assert '"left":1' in reset.observation.json
    stepped = await stub.Step(step(session))
    assert (stepped.reward, stepped.terminated, stepped.truncated) == (1.0, True, False)
    state = await stub.GetState(episode_pb2.GetStateRequest(session_id=session))
    assert (state.step_count, state.episode_id) == (1, "e1")
    verdict = await stub.Evaluate(episode_pb2.EvaluateRequest(session_id=session))
    assert verdict.terminated
    closed = await stub.Close(episode_pb2.CloseRequest(session_id=session))
    assert closed.step_count == 1
    assert host.sessions() == []


async def test_the_same_seed_draws_the_same(stub: Any) -> None:
    session = (await stub.Open(episode_pb2.OpenRequest())).session_id
    request = episode_pb2.ResetRequest(session_id=session, seed=5)
    assert (await stub.Reset(request)).observation == (await stub.Reset(request)).observation


@pytest.mark.parametrize(
    ("call", "code", "reason"),
    [
        (lambda s, i: s.Step(step("nope")), "NOT_FOUND", "SESSION_NOT_FOUND"),
        (lambda s, i: s.Step(step(i, "{")), "INVALID_ARGUMENT", "INVALID_REQUEST"),
        (lambda s, i: s.Step(step(i, '{"by":"x"}')), "INVALID_ARGUMENT", "INVALID_ACTION"),
        (lambda s, i: s.Step(step(i, request_id=9)), "FAILED_PRECONDITION", "OUT_OF_ORDER"),
        (lambda s, i: s.Step(step(i, request_id=-9)), "INVALID_ARGUMENT", "INVALID_REQUEST"),
        (
            lambda s, i: s.Open(episode_pb2.OpenRequest(environment="chess")),
            "NOT_FOUND",
            "ENVIRONMENT_NOT_FOUND",
        ),
        (
            lambda s, i: s.Open(episode_pb2.OpenRequest(environment="not_built")),
            "ABORTED",
            "CONSTRUCTION_FAILED",
        ),
        (
            lambda s, i: s.Open(episode_pb2.OpenRequest(idle_timeout={"seconds": -1})),
            "INVALID_ARGUMENT",
            "INVALID_REQUEST",
        ),
    ],
    ids=[
        "no_session", "bad_json", "bad_action", "id_ahead", "negative_id", "no_environment",
        "not_built", "negative_idle",
    ],
)  # fmt: skip
async def test_a_failed_call_ends_with_a_status_and_our_error(
    stub: Any, call: Callable[[Any, str], Any], code: str, reason: str
) -> None:
    session = (await stub.Open(episode_pb2.OpenRequest())).session_id
    status, error = await failure(call(stub, session))
    assert (status.name, error.reason.name) == (code, reason)
    assert (await stub.Reset(episode_pb2.ResetRequest(session_id=session))).observation.json


async def test_a_failing_environment_aborts_the_call_and_the_session_lives(stub: Any) -> None:
    session = (await stub.Open(episode_pb2.OpenRequest(environment="failing"))).session_id
    await stub.Reset(episode_pb2.ResetRequest(session_id=session))
    status, error = await failure(stub.Step(step(session, '{"text":"value"}')))
    assert (status.name, error.message) == ("ABORTED", "ValueError: no such move")
    assert error.metadata["exception_type"] == "ValueError"
    assert (await stub.Step(step(session))).reward == 1.0


async def test_a_repeated_call_is_answered_from_the_record(stub: Any) -> None:
    session = (await stub.Open(episode_pb2.OpenRequest())).session_id
    await stub.Reset(episode_pb2.ResetRequest(session_id=session, request_id=2))
    first = await stub.Step(step(session, request_id=3))
    assert await stub.Step(step(session, request_id=3)) == first
    assert (await stub.GetState(episode_pb2.GetStateRequest(session_id=session))).step_count == 1
    _, error = await failure(stub.Step(step(session, '{"by":2}', request_id=3)))
    assert error.reason.name == "REQUEST_CONFLICT"


async def test_a_calls_deadline_is_the_operations(stub: Any, gates: Gates) -> None:
    session = (await stub.Open(episode_pb2.OpenRequest(environment="slow"))).session_id
    await stub.Reset(episode_pb2.ResetRequest(session_id=session))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.Step(step(session, '{"text":"wait"}'), timeout=0.1)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    gates.leave.set()
    own = await stub.Step(step(session, '{"text":"own"}'))
    assert '"text":"own"' in own.observation.json


async def test_a_calls_deadline_reaches_the_environment() -> None:
    definition = EnvironmentDefinition(
        factory=OwnBooks, action_type=Count, observation_type=Counted
    )
    async with (
        SessionManager([definition]) as host,
        GrpcServer(host, stop_grace_s=0) as server,
        grpc.aio.insecure_channel(f"127.0.0.1:{server.ports[0]}") as channel,
    ):
        episodes: Any = episode_pb2_grpc.EpisodeServiceStub(channel)
        session = (await episodes.Open(episode_pb2.OpenRequest())).session_id
        limited = await episodes.Step(step(session, "{}"), timeout=100)
        assert 90 < json.loads(limited.observation.json)["left"] <= 100
        unlimited = await episodes.Step(step(session, "{}", request_id=3))
        assert json.loads(unlimited.observation.json)["left"] == 0


async def test_a_session_ends_when_it_idles_beyond_its_lease(
    stub: Any, host: SessionManager
) -> None:
    lease = {"nanos": 50_000_000}
    session = (await stub.Open(episode_pb2.OpenRequest(idle_timeout=lease))).session_id
    async with asyncio.timeout(5):
        while host.sessions():
            await asyncio.sleep(0)
    status, _ = await failure(stub.GetState(episode_pb2.GetStateRequest(session_id=session)))
    assert status is grpc.StatusCode.NOT_FOUND


async def test_a_client_whose_time_passes_is_told_whether_the_step_happened(
    stub: Any, gates: Gates
) -> None:
    session = (await stub.Open(episode_pb2.OpenRequest(environment="slow"))).session_id
    await stub.Reset(episode_pb2.ResetRequest(session_id=session))
    status, error = await failure(stub.Step(step(session, '{"text":"wait"}'), timeout=2))
    assert status is grpc.StatusCode.DEADLINE_EXCEEDED
    assert error.effect is Effect.UNKNOWN
    gates.leave.set()


async def test_a_client_that_leaves_while_it_opens_leaves_no_session(
    stub: Any, host: SessionManager, gates: Gates
) -> None:
    opening = stub.Open(episode_pb2.OpenRequest(environment="slow_to_build"))
    async with asyncio.timeout(5):
        while not gates.entered.is_set():
            await asyncio.sleep(0)
    opening.cancel()
    async with asyncio.timeout(5):
        while [session.state for session in host.sessions()] != [SessionState.CLOSING]:
            await asyncio.sleep(0)
        gates.leave.set()
        while host.sessions():
            await asyncio.sleep(0)


async def until_queued(host: SessionManager) -> None:
    async with asyncio.timeout(5):
        while not any(info.state is SessionState.QUEUED for info in host.sessions()):
            await asyncio.sleep(0.01)


async def test_an_open_waits_for_a_slot(stub: Any, host: SessionManager) -> None:
    lonely = episode_pb2.OpenRequest(environment="lonely")
    first = await stub.Open(lonely)
    waiting = stub.Open(lonely)
    await until_queued(host)
    await stub.Close(episode_pb2.CloseRequest(session_id=first.session_id))
    async with asyncio.timeout(5):
        assert (await waiting).session_id


async def test_an_open_whose_time_is_over_leaves_the_queue(stub: Any, host: SessionManager) -> None:
    lonely = episode_pb2.OpenRequest(environment="lonely")
    await stub.Open(lonely)
    code, error = await failure(stub.Open(lonely, timeout=0.3))
    assert code is grpc.StatusCode.DEADLINE_EXCEEDED
    assert error.effect is Effect.NONE
    lonely.queue_timeout.FromSeconds(0)
    lonely.queue_timeout.SetInParent()
    code, error = await failure(stub.Open(lonely))
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert error.metadata == {"active_sessions": "1", "max_sessions": "1"}
    assert error.retry_delay_s == 1.0
    assert len(host.sessions()) == 1


async def test_a_client_that_hangs_up_leaves_the_queue(stub: Any, host: SessionManager) -> None:
    lonely = episode_pb2.OpenRequest(environment="lonely")
    await stub.Open(lonely)
    waiting = stub.Open(lonely)
    await until_queued(host)
    waiting.cancel()
    async with asyncio.timeout(5):
        while len(host.sessions()) > 1:
            await asyncio.sleep(0.01)
