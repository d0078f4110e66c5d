"""Who may call which method: every method, every principal."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from grpc_channelz.v1 import channelz_pb2
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from openenv_grpc.access import Access
from openenv_grpc.engine import SessionManager
from openenv_grpc.server import GrpcServer, guard
from openenv_grpc.server.guard import AREAS
from openenv_grpc.v1 import (
    admin_pb2,
    catalog_pb2,
    catalog_pb2_grpc,
    episode_pb2,
    episode_pb2_grpc,
    session_pb2,
    session_pb2_grpc,
    task_pb2,
    tool_pb2,
    tool_pb2_grpc,
)
from openenv_grpc.wire import status
from tests.stream.pipe import opening

TRAINER = "trainer-token-of-the-tests"
SECOND = "another-trainers-token"
MCP_URL = "http://tools.example/mcp"

YES, DENIED, UNKNOWN = "yes", "PERMISSION_DENIED", "UNAUTHENTICATED"

SERVICES = {
    # What a trainer, an agent and anybody else meet.
    session_pb2.DESCRIPTOR: (YES, DENIED, UNKNOWN),
    episode_pb2.DESCRIPTOR: (YES, DENIED, UNKNOWN),
    tool_pb2.DESCRIPTOR: (YES, YES, UNKNOWN),
    catalog_pb2.DESCRIPTOR: (YES, YES, UNKNOWN),
    reflection_pb2.DESCRIPTOR: (YES, YES, UNKNOWN),
    task_pb2.DESCRIPTOR: (YES, DENIED, UNKNOWN),
    admin_pb2.DESCRIPTOR: (YES, DENIED, UNKNOWN),
    channelz_pb2.DESCRIPTOR: (YES, DENIED, UNKNOWN),
    health_pb2.DESCRIPTOR: (YES, YES, YES),
}
CELLS = [
    pytest.param(
        f"/{service.full_name}/{method.name}", who, met, id=f"{service.name}.{method.name}-{who}"
    )
    for file, row in SERVICES.items()
    for service in file.services_by_name.values()
    for method in service.methods
    for who, met in zip(
        ("trainer", "second trainer", "agent", "wrong", "missing"),
        (row[0], row[0], row[1], row[2], row[2]),
        strict=True,
    )
]


@pytest.fixture
async def server(host: SessionManager) -> AsyncIterator[GrpcServer]:
    access = Access([TRAINER, SECOND], mcp_url=lambda environment: MCP_URL)
    async with GrpcServer(host, stop_grace_s=0, access=access) as server:
        yield server


def bearer(token: str | None) -> tuple[tuple[str, str], ...]:
    return () if token is None else (("authorization", f"Bearer {token}"),)


async def open_session(
    channel: grpc.aio.Channel, environment: str = "toolbox"
) -> episode_pb2.OpenResponse:
    response: episode_pb2.OpenResponse = await episode_pb2_grpc.EpisodeServiceStub(channel).Open(
        episode_pb2.OpenRequest(environment=environment, agent_access=True),
        metadata=bearer(TRAINER),
        timeout=10,
    )
    return response


METHODS = {
    f"/{service.full_name}/{method.name}": method
    for file in SERVICES
    for service in file.services_by_name.values()
    for method in service.methods
}


async def outcome_of(channel: grpc.aio.Channel, path: str, token: str | None) -> str:
    """Calls a method with an empty message, and tells how it was met."""
    options: dict[str, Any] = {"metadata": bearer(token), "timeout": 10}
    method = METHODS.get(path)
    call: Any = None
    try:
        if method is not None and method.client_streaming:
            call = channel.stream_stream(path)(**options)
            await call.write(b"")
            await call.read()
        elif method is not None and method.server_streaming:
            call = channel.unary_stream(path)(b"", **options)
            await call.read()
        else:
            await channel.unary_unary(path)(b"", **options)
    except grpc.aio.AioRpcError as error:
        return YES if error.code().name not in (DENIED, UNKNOWN) else error.code().name
    finally:
        if call is not None:
            call.cancel()
    return YES


@pytest.mark.parametrize(("path", "who", "met"), CELLS)
async def test_a_method_is_open_to_those_of_the_table(
    channel: grpc.aio.Channel, path: str, who: str, met: str
) -> None:
    opened = await open_session(channel)
    tokens = {
        "trainer": TRAINER,
        "second trainer": SECOND,
        "agent": opened.agent_access.token,
        "wrong": TRAINER[:-1],
        "missing": None,
    }

    assert await outcome_of(channel, path, tokens[who]) == met


TOKENS_OF_NOBODY = ["Bearer wrong", "Bearer ", "Basic c2VjcmV0", "token"]


async def test_with_agents_tokens_alone_a_method_is_open_to_those_of_the_table(
    host: SessionManager,
) -> None:
    access = Access(agent_tokens=True, mcp_url=lambda environment: MCP_URL)
    async with (
        GrpcServer(host, stop_grace_s=0, access=access) as server,
        grpc.aio.insecure_channel(f"127.0.0.1:{server.ports[0]}") as channel,
    ):
        episodes = episode_pb2_grpc.EpisodeServiceStub(channel)
        own, ended = [
            await episodes.Open(
                episode_pb2.OpenRequest(environment="toolbox", agent_access=True), timeout=10
            )
            for _ in range(2)
        ]
        await episodes.Close(episode_pb2.CloseRequest(session_id=ended.session_id), timeout=10)
        for file, (_, agent, anybody) in SERVICES.items():
            trainer = UNKNOWN if file is tool_pb2.DESCRIPTOR else YES
            services = file.services_by_name.values()
            for path in (
                f"/{each.full_name}/{name.name}" for each in services for name in each.methods
            ):
                met = {
                    "": await outcome_of(channel, path, None),
                    "agent": await outcome_of(channel, path, own.agent_access.token),
                    "ended": await outcome_of(channel, path, ended.agent_access.token),
                    "wrong": await outcome_of(channel, path, "wrong"),
                }
                expected = {"": trainer, "agent": agent, "ended": anybody, "wrong": anybody}
                assert met == expected, path


@pytest.mark.parametrize("header", TOKENS_OF_NOBODY)
async def test_with_agents_tokens_alone_a_header_without_a_token_is_no_trainers(
    host: SessionManager, header: str
) -> None:
    async with (
        GrpcServer(host, stop_grace_s=0, access=Access(agent_tokens=True)) as server,
        grpc.aio.insecure_channel(f"127.0.0.1:{server.ports[0]}") as channel,
    ):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await episode_pb2_grpc.EpisodeServiceStub(channel).Open(
                episode_pb2.OpenRequest(), metadata=(("authorization", header),), timeout=10
            )
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_a_stream_that_nothing_is_written_to_is_refused_too(
    channel: grpc.aio.Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "FIRST_MESSAGE_S", 0.01)
    call = session_pb2_grpc.SessionServiceStub(channel).Connect(metadata=bearer("wrong"))

    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call.read()
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_a_stream_is_refused_with_its_status_however_often(
    channel: grpc.aio.Channel,
) -> None:
    async def refused() -> str:
        return await outcome_of(channel, "/openenv_grpc.v1.SessionService/Connect", "wrong")

    assert set(await asyncio.gather(*(refused() for _ in range(200)))) == {UNKNOWN}


def test_every_service_that_is_served_has_its_row() -> None:

    listed = {service.full_name for file in SERVICES for service in file.services_by_name.values()}
    assert set(AREAS) == listed


async def test_a_method_that_nobody_knows_is_for_trainers(channel: grpc.aio.Channel) -> None:
    agent = (await open_session(channel)).agent_access.token

    assert await outcome_of(channel, "/no.Such/Method", None) == UNKNOWN
    assert await outcome_of(channel, "/no.Such/Method", agent) == DENIED
    assert await outcome_of(channel, "/no.Such/Method", TRAINER) == YES


@pytest.mark.parametrize(
    "header",
    [f"Basic {TRAINER}", TRAINER, "Bearer", "Bearer ", f"Bearer {TRAINER} {TRAINER}"],
    ids=["another scheme", "no scheme", "nothing", "an empty token", "two tokens"],
)
async def test_what_is_no_bearer_token_is_none(channel: grpc.aio.Channel, header: str) -> None:
    catalog = catalog_pb2_grpc.CatalogServiceStub(channel)

    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await catalog.ListEnvironments(
            catalog_pb2.ListEnvironmentsRequest(), metadata=(("authorization", header),)
        )

    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_the_scheme_may_be_written_in_lower_case(channel: grpc.aio.Channel) -> None:
    catalog = catalog_pb2_grpc.CatalogServiceStub(channel)

    await catalog.ListEnvironments(
        catalog_pb2.ListEnvironmentsRequest(), metadata=(("authorization", f"bearer {TRAINER}"),)
    )


async def test_an_agent_uses_the_tools_of_its_session_alone(channel: grpc.aio.Channel) -> None:
    own, other = await open_session(channel), await open_session(channel)
    tools = tool_pb2_grpc.ToolServiceStub(channel)
    metadata = bearer(own.agent_access.token)

    listed = await tools.ListTools(
        tool_pb2.ListToolsRequest(session_id=own.session_id), metadata=metadata
    )
    assert listed.tools
    for session_id in (other.session_id, "no such session"):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await tools.ListTools(
                tool_pb2.ListToolsRequest(session_id=session_id), metadata=metadata
            )
        assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
        call = tools.CallTool(
            tool_pb2.CallToolRequest(session_id=session_id, tool_name=listed.tools[0].name),
            metadata=metadata,
        )
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call.read()
        assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED


async def test_an_agent_need_not_name_its_session(channel: grpc.aio.Channel) -> None:
    own = await open_session(channel)

    listed = await tool_pb2_grpc.ToolServiceStub(channel).ListTools(
        tool_pb2.ListToolsRequest(), metadata=bearer(own.agent_access.token)
    )

    assert listed.tools


async def test_an_agents_token_ends_with_its_session(channel: grpc.aio.Channel) -> None:
    own, other = await open_session(channel), await open_session(channel)
    await episode_pb2_grpc.EpisodeServiceStub(channel).Close(
        episode_pb2.CloseRequest(session_id=own.session_id), metadata=bearer(TRAINER)
    )

    path = "/openenv_grpc.v1.CatalogService/ListEnvironments"
    assert await outcome_of(channel, path, own.agent_access.token) == UNKNOWN
    assert await outcome_of(channel, path, other.agent_access.token) == YES


async def test_open_on_a_stream_tells_what_the_agent_needs(channel: grpc.aio.Channel) -> None:
    call = session_pb2_grpc.SessionServiceStub(channel).Connect(metadata=bearer(TRAINER))
    plain, asking = opening(session=1, environment="toolbox"), opening(session=2)
    asking.open.environment = "toolbox"
    asking.open.agent_access = True
    hello = session_pb2.ClientHello(name="test")
    await call.write(session_pb2.ConnectRequest(client=hello, operations=[plain, asking]))
    outcomes: dict[int, session_pb2.Outcome] = {}
    features: list[str] = []
    async with asyncio.timeout(10):
        while len(outcomes) < 2:
            response = await call.read()
            features.extend(response.server.features)
            outcomes.update({outcome.session: outcome for outcome in response.outcomes})

    assert "agent_access" in features
    assert not outcomes[1].open.HasField("agent_access")
    access = outcomes[2].open.agent_access
    assert access.mcp_url == MCP_URL
    await tool_pb2_grpc.ToolServiceStub(channel).ListTools(
        tool_pb2.ListToolsRequest(session_id=outcomes[2].open.session_id),
        metadata=bearer(access.token),
    )
    call.cancel()


async def test_without_tokens_agents_get_none_and_need_none(host: SessionManager) -> None:
    async with (
        GrpcServer(host, stop_grace_s=0, access=Access()) as server,
        grpc.aio.insecure_channel(f"127.0.0.1:{server.ports[0]}") as channel,
    ):
        opened = await open_session(channel)
        assert opened.HasField("agent_access")
        assert opened.agent_access.token == ""
        await tool_pb2_grpc.ToolServiceStub(channel).ListTools(
            tool_pb2.ListToolsRequest(session_id=opened.session_id)
        )


async def test_a_token_is_in_no_error_and_no_log(
    channel: grpc.aio.Channel, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    opened = await open_session(channel)
    agent = opened.agent_access.token
    catalog = catalog_pb2_grpc.CatalogServiceStub(channel)
    episodes = episode_pb2_grpc.EpisodeServiceStub(channel)
    told = []
    with pytest.raises(grpc.aio.AioRpcError) as unknown:
        await catalog.ListEnvironments(
            catalog_pb2.ListEnvironmentsRequest(), metadata=bearer("a-wrong-token")
        )
    with pytest.raises(grpc.aio.AioRpcError) as denied:
        await episodes.Open(episode_pb2.OpenRequest(), metadata=bearer(agent))
    for error in (unknown.value, denied.value):
        details = dict(error.trailing_metadata() or ())["grpc-status-details-bin"]
        assert isinstance(details, bytes)
        told.append(f"{error} {status.decode_status(details)}")

    for text in (*told, caplog.text):
        assert "a-wrong-token" not in text
        assert agent not in text
        assert TRAINER not in text
