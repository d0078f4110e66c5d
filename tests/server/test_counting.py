"""Bytes that go through gRPC."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc

from openenv_grpc.engine import SessionManager
from openenv_grpc.v1 import (
    episode_pb2,
    episode_pb2_grpc,
    session_pb2,
    session_pb2_grpc,
    tool_pb2,
    tool_pb2_grpc,
)
from tests.stream.pipe import opening


async def test_messages_of_every_kind_of_call_are_counted(
    channel: grpc.aio.Channel, host: SessionManager
) -> None:
    traffic = host.metrics.doors["grpc"]
    received = sent = 0

    episodes: Any = episode_pb2_grpc.EpisodeServiceStub(channel)
    request: Any = episode_pb2.OpenRequest(environment="toolbox")
    opened = await episodes.Open(request)
    received, sent = received + request.ByteSize(), sent + opened.ByteSize()
    assert (traffic.received_bytes, traffic.sent_bytes) == (received, sent)

    tools: Any = tool_pb2_grpc.ToolServiceStub(channel)
    request = tool_pb2.CallToolRequest(session_id=opened.session_id, tool_name="add")
    request.arguments.json = '{"a": 1, "b": 2}'
    responses = [response async for response in tools.CallTool(request)]
    received += request.ByteSize()
    sent += sum(response.ByteSize() for response in responses)
    assert (traffic.received_bytes, traffic.sent_bytes) == (received, sent)

    sessions: Any = session_pb2_grpc.SessionServiceStub(channel)
    stream = sessions.Connect()
    request = session_pb2.ConnectRequest(operations=[opening(1)])
    await stream.write(request)
    response = await stream.read()
    received, sent = received + request.ByteSize(), sent + response.ByteSize()
    async with asyncio.timeout(5):
        while traffic.sent_bytes < sent:  # counted once it is sent
            await asyncio.sleep(0.01)
    assert (traffic.received_bytes, traffic.sent_bytes) == (received, sent)
    stream.cancel()
