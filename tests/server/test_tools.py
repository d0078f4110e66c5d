"""`ToolService`: what an agent may do."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import grpc
import pytest

from openenv_grpc.v1 import episode_pb2, episode_pb2_grpc, payload_pb2, tool_pb2, tool_pb2_grpc
from tests.environments import Gates


@pytest.fixture
def stub(channel: grpc.aio.Channel) -> Any:
    return tool_pb2_grpc.ToolServiceStub(channel)


@pytest.fixture
async def session(channel: grpc.aio.Channel) -> str:
    episodes: Any = episode_pb2_grpc.EpisodeServiceStub(channel)
    opened = await episodes.Open(episode_pb2.OpenRequest(environment="toolbox"))
    return str(opened.session_id)


def call(session: str, tool: str, arguments: str = "{}", **fields: Any) -> Any:
    payload = payload_pb2.Payload(json=arguments)
    return tool_pb2.CallToolRequest(session_id=session, tool_name=tool, arguments=payload, **fields)


async def result(stub: Any, request: Any) -> tool_pb2.ToolResult:
    messages = [message async for message in stub.CallTool(request)]
    assert [message.WhichOneof("kind") for message in messages] == ["result"]
    return messages[0].result


async def test_the_tools_are_listed_with_their_schemas(stub: Any, session: str) -> None:
    listed = await stub.ListTools(tool_pb2.ListToolsRequest(session_id=session))
    assert [tool.name for tool in listed.tools] == ["add", "submit", "fail", "simulate"]
    add = listed.tools[0]
    assert add.description == "Adds two numbers."
    assert json.loads(add.input_schema_json)["required"] == ["a", "b"]


async def test_a_tool_answers_as_text_and_as_data(stub: Any, session: str) -> None:
    answer = await result(stub, call(session, "add", '{"a":1,"b":2}'))
    assert [content.text for content in answer.contents] == ["3"]
    assert answer.structured.json == "3"
    assert not answer.failed


async def test_a_tool_that_fails_is_a_result_that_says_so(stub: Any, session: str) -> None:
    answer = await result(stub, call(session, "fail", '{"reason":"no luck"}'))
    assert answer.failed
    assert "no luck" in answer.contents[0].text


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (lambda s: call(s, "nope"), "NOT_FOUND"),
        (lambda s: call("nope", "add"), "NOT_FOUND"),
        (lambda s: call(s, ""), "INVALID_ARGUMENT"),
        (lambda s: call(s, "add", "[]"), "INVALID_ARGUMENT"),
        (lambda s: call(s, "add", '{"a":"x","b":1}'), "INVALID_ARGUMENT"),
        (lambda s: call(s, "add", call_id="x" * 65), "INVALID_ARGUMENT"),
    ],
    ids=["no_tool", "no_session", "no_name", "no_object", "bad_argument", "long_call_id"],
)
async def test_a_call_that_cannot_be_made_ends_with_a_status(
    stub: Any, session: str, request_: Any, code: str
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await result(stub, request_(session))
    assert caught.value.code().name == code
    assert (await result(stub, call(session, "add", '{"a":1,"b":1}'))).contents[0].text == "2"


async def test_a_call_id_makes_a_retry_safe(stub: Any, session: str) -> None:
    request = call(session, "submit", '{"answer":"42"}', call_id="c1")
    assert await result(stub, request) == await result(stub, request)
    other = call(session, "submit", '{"answer":"43"}', call_id="c1")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await result(stub, other)
    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION


async def test_the_trainer_reads_what_the_agent_earned(
    stub: Any, session: str, channel: grpc.aio.Channel
) -> None:
    episodes: Any = episode_pb2_grpc.EpisodeServiceStub(channel)
    await episodes.Reset(episode_pb2.ResetRequest(session_id=session))
    answer = await result(stub, call(session, "submit", '{"answer":"42"}'))
    assert answer.contents[0].text == "taken"
    verdict = await episodes.Evaluate(episode_pb2.EvaluateRequest(session_id=session))
    assert (verdict.reward, verdict.terminated) == (1.0, True)


# What a tool tells while it runs


@pytest.mark.parametrize("call_id", ["", "c1"], ids=["once", "may be sent again"])
@pytest.mark.parametrize("tool", ["work", "work_later"])
async def test_progress_and_logs_come_before_the_result(
    stub: Any, channel: grpc.aio.Channel, tool: str, call_id: str
) -> None:
    episodes: Any = episode_pb2_grpc.EpisodeServiceStub(channel)
    opened = await episodes.Open(episode_pb2.OpenRequest(environment="library"))
    request = call(opened.session_id, tool, '{"steps":2}', call_id=call_id)
    messages = [message async for message in stub.CallTool(request)]
    kinds = [message.WhichOneof("kind") for message in messages]
    assert kinds == ["progress", "progress", "log", "result"]
    progress, log = messages[1].progress, messages[2].log
    assert (progress.progress, progress.total, progress.message) == (2, 2, "step 2")
    assert progress.elapsed_time.ToNanoseconds() >= 0
    assert (log.level, log.logger, log.data.json) == ("warning", "work", '{"steps":2}')


async def test_ending_the_call_cancels_a_tool_that_can_be_cancelled(
    stub: Any, channel: grpc.aio.Channel, gates: Gates
) -> None:
    episodes: Any = episode_pb2_grpc.EpisodeServiceStub(channel)
    opened = await episodes.Open(episode_pb2.OpenRequest(environment="async_slow"))
    asking = stub.CallTool(call(opened.session_id, "act", '{"text":"wait"}'))
    assert await asyncio.to_thread(gates.entered.wait, 30)
    asking.cancel()
    async with asyncio.timeout(30):
        answer = await result(stub, call(opened.session_id, "act"))
    assert not answer.failed
