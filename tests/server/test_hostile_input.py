"""What clients send that nobody should: each method answers with a typed error and lives on."""

from __future__ import annotations

import logging

import grpc
import pytest

from openenv_grpc.errors import OpenEnvError
from openenv_grpc.v1 import episode_pb2, episode_pb2_grpc
from openenv_grpc.wire.status import decode_status

UNARY = [
    "EpisodeService/Open",
    "EpisodeService/Reset",
    "EpisodeService/Step",
    "EpisodeService/GetState",
    "EpisodeService/Evaluate",
    "EpisodeService/Close",
    "ToolService/ListTools",
    "CatalogService/ListEnvironments",
    "CatalogService/GetEnvironment",
    "TaskService/ListSplits",
    "TaskService/CountTasks",
    "TaskService/GetTask",
    "TaskService/ListTasks",
    "AdminService/ListSessions",
    "AdminService/CloseSession",
    "AdminService/Drain",
]


def refusal(error: grpc.aio.AioRpcError) -> OpenEnvError:
    found = decode_status(dict(error.trailing_metadata())["grpc-status-details-bin"])
    assert found is not None
    return found


@pytest.mark.parametrize("method", UNARY)
async def test_a_request_cut_in_half_is_refused_in_our_words(
    channel: grpc.aio.Channel, caplog: pytest.LogCaptureFixture, method: str
) -> None:
    caplog.set_level(logging.WARNING)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await channel.unary_unary(f"/openenv_grpc.v1.{method}")(b"\x0a\x7fx")
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert refusal(caught.value).reason.name == "INVALID_REQUEST"
    assert caplog.records == []


async def test_a_tool_call_cut_in_half_is_refused_in_our_words(channel: grpc.aio.Channel) -> None:
    call = channel.unary_stream("/openenv_grpc.v1.ToolService/CallTool")(b"\x0a\x7fx")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call.read()
    assert refusal(caught.value).reason.name == "INVALID_REQUEST"


async def test_an_error_with_a_long_text_arrives_whole_but_for_its_end(
    channel: grpc.aio.Channel,
) -> None:
    stub = episode_pb2_grpc.EpisodeServiceStub(channel)
    name = "é" * 100_000
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.Open(episode_pb2.OpenRequest(environment=name))
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    error = refusal(caught.value)
    assert error.reason.name == "ENVIRONMENT_NOT_FOUND"
    assert error.message == caught.value.details()
    assert error.message.startswith("there is no environment 'ééé")


@pytest.mark.parametrize(
    "action",
    ['{"text":' + "[" * 10_000, '{"by":NaN}', '{"by":"NaN"}', '{"by":1e400}', "\0", '{"zzz":1}'],
    ids=["deep", "nan", "nan_string", "overflow", "zero_byte", "unknown_field"],
)
async def test_a_bad_action_is_refused_and_the_session_goes_on(
    channel: grpc.aio.Channel, action: str
) -> None:
    stub = episode_pb2_grpc.EpisodeServiceStub(channel)
    session = (await stub.Open(episode_pb2.OpenRequest())).session_id
    await stub.Reset(episode_pb2.ResetRequest(session_id=session))
    request = episode_pb2.StepRequest(session_id=session, action={"json": action})
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.Step(request)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    request.action.json = "{}"
    assert (await stub.Step(request)).reward == 1.0
