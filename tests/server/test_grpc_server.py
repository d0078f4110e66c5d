"""The gRPC server itself: streams, health, reflection, limits, addresses, the end."""

from __future__ import annotations

import asyncio
import logging
import random
import socket
import threading
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_channelz.v1 import channelz_pb2, channelz_pb2_grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from openenv_grpc.engine import EngineSettings, EnvironmentDefinition, SessionManager
from openenv_grpc.errors import UnavailableError
from openenv_grpc.operations import Kind
from openenv_grpc.server import SERVICES, GrpcServer
from openenv_grpc.v1 import session_pb2, session_pb2_grpc
from openenv_grpc.wire.status import decode_status
from tests.engine.talking import Caller
from tests.environments import Count, Countdown, Counted, Gates, Slow
from tests.exactly_once.proxy import proxied
from tests.stream.pipe import opening, resetting, stepping

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


def request(*operations: session_pb2.Operation) -> session_pb2.ConnectRequest:
    return session_pb2.ConnectRequest(operations=operations)


async def outcomes(call: Any, count: int) -> list[session_pb2.Outcome]:
    found: list[session_pb2.Outcome] = []
    async with asyncio.timeout(10):
        while len(found) < count:
            found.extend((await call.read()).outcomes)
    return found


async def test_a_batch_across_sessions_on_one_stream(channel: grpc.aio.Channel) -> None:
    call: Any = session_pb2_grpc.SessionServiceStub(channel).Connect()
    await call.write(
        request(*(make(number) for number in range(1, 21) for make in (opening, resetting)))
    )
    await outcomes(call, 40)
    await call.write(request(*(stepping(number) for number in range(1, 21))))
    stepped = await outcomes(call, 20)
    assert sorted(outcome.session for outcome in stepped) == list(range(1, 21))
    assert {outcome.WhichOneof("kind") for outcome in stepped} == {"step"}
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF


async def test_a_message_cut_in_half_ends_the_stream_with_our_error(
    channel: grpc.aio.Channel, host: SessionManager
) -> None:
    method = "/openenv_grpc.v1.SessionService/Connect"
    call: Any = channel.stream_stream(method)()
    await call.write(request(opening()).SerializeToString()[:-3])
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call.read()
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    error = decode_status(dict(caught.value.trailing_metadata())["grpc-status-details-bin"])
    assert error is not None
    assert error.reason.name == "PROTOCOL_VIOLATION"
    assert host.sessions() == []


async def test_a_message_beyond_the_limit_ends_the_stream(host: SessionManager) -> None:
    async with (
        GrpcServer(host, max_message_bytes=1000, stop_grace_s=0) as server,
        grpc.aio.insecure_channel(f"127.0.0.1:{server.ports[0]}") as channel,
    ):
        call: Any = session_pb2_grpc.SessionServiceStub(channel).Connect()
        await call.write(request(opening(), stepping(action="x" * 2000)))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_messages_pass_that_are_larger_than_grpcs_default(server: GrpcServer) -> None:
    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    target = f"127.0.0.1:{server.ports[0]}"
    async with grpc.aio.insecure_channel(target, options=options) as channel:
        call: Any = session_pb2_grpc.SessionServiceStub(channel).Connect()
        hello = request(opening(), resetting())
        hello.client.max_receive_size_bytes = 100 * 2**20
        await call.write(hello)
        await outcomes(call, 2)
        await call.write(request(stepping(action='{"text":"' + "x" * 6_000_000 + '"}')))
        (stepped,) = await outcomes(call, 1)
        assert len(stepped.step.observation.json) > 6_000_000
        call.cancel()


async def test_health_serves_until_the_server_drains(
    host: SessionManager, channel: grpc.aio.Channel, server: GrpcServer
) -> None:
    stub: Any = health_pb2_grpc.HealthStub(channel)
    for service in ("", *SERVICES):
        answer = await stub.Check(health_pb2.HealthCheckRequest(service=service))
        assert answer.status == SERVING
    watch = stub.Watch(health_pb2.HealthCheckRequest())
    assert (await watch.read()).status == SERVING
    server.drain(None)
    async with asyncio.timeout(5):
        assert (await watch.read()).status == NOT_SERVING
    assert host.draining
    watch.cancel()


async def test_health_turns_while_too_many_calls_are_stuck(gates: Gates) -> None:
    definition = EnvironmentDefinition(
        factory=lambda: Slow(gates), action_type=Count, observation_type=Counted
    )
    settings = EngineSettings(close_timeout_s=0.01, max_stuck=0)
    async with (
        asyncio.timeout(20),
        SessionManager([definition], settings) as host,
        GrpcServer(host, stop_grace_s=0) as server,
        grpc.aio.insecure_channel(f"127.0.0.1:{server.ports[0]}") as channel,
    ):
        stub: Any = health_pb2_grpc.HealthStub(channel)
        watch = stub.Watch(health_pb2.HealthCheckRequest())
        assert (await watch.read()).status == SERVING
        async with host.attach(peer="test") as attachment:
            Caller(attachment.open("")).send(Kind.STEP, {"text": "wait"})
            await asyncio.to_thread(gates.entered.wait)
        assert (await watch.read()).status == NOT_SERVING
        gates.leave.set()
        assert (await watch.read()).status == SERVING
        host.drain()
        assert (await watch.read()).status == NOT_SERVING
        watch.cancel()


async def test_reflection_lists_the_services_and_channelz_answers(
    channel: grpc.aio.Channel,
) -> None:
    stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
    call = stub.ServerReflectionInfo()
    await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
    listed = {service.name for service in (await call.read()).list_services_response.service}
    assert set(SERVICES) <= listed
    await call.done_writing()
    channelz: Any = channelz_pb2_grpc.ChannelzStub(channel)
    servers = await channelz.GetServers(channelz_pb2.GetServersRequest())
    assert len(servers.server) >= 1


async def test_a_port_in_use_is_an_error_that_says_so(
    host: SessionManager, server: GrpcServer
) -> None:
    address = f"127.0.0.1:{server.ports[0]}"
    with pytest.raises(UnavailableError, match=address):
        async with GrpcServer(host, addresses=(address,)):
            pass


async def test_a_unix_socket_serves(host: SessionManager, tmp_path: Path) -> None:
    address = f"unix:{tmp_path / 'socket'}"
    async with (
        GrpcServer(host, addresses=(address,), stop_grace_s=0),
        grpc.aio.insecure_channel(address) as channel,
    ):
        call: Any = session_pb2_grpc.SessionServiceStub(channel).Connect()
        await call.write(request(opening()))
        assert (await outcomes(call, 1))[0].open.session_id
        call.cancel()


async def test_stopping_ends_streams_and_sessions(host: SessionManager, gates: Gates) -> None:
    async with GrpcServer(host, stop_grace_s=0.1) as server:
        channel = grpc.aio.insecure_channel(f"127.0.0.1:{server.ports[0]}")
        call: Any = session_pb2_grpc.SessionServiceStub(channel).Connect()
        await call.write(request(opening(environment="slow")))
        await outcomes(call, 1)
    async with asyncio.timeout(5):
        assert await call.code() is not grpc.StatusCode.OK
        while host.sessions():
            await asyncio.sleep(0)
    assert gates.closed >= 1
    await channel.close()


@pytest.mark.parametrize("end", ["half_close", "cancel", "disconnect"])
async def test_a_hundred_clients_leave_nothing_behind(
    host: SessionManager, server: GrpcServer, caplog: pytest.LogCaptureFixture, end: str
) -> None:
    caplog.set_level(logging.WARNING)
    before = threading.active_count()
    target = f"127.0.0.1:{server.ports[0]}"

    async def client() -> None:
        options = [("grpc.use_local_subchannel_pool", 1)]
        async with grpc.aio.insecure_channel(target, options=options) as channel:
            call: Any = session_pb2_grpc.SessionServiceStub(channel).Connect()
            await call.write(request(opening(environment="countdown"), resetting(), stepping()))
            match end:
                case "half_close":
                    await outcomes(call, 3)
                    await call.done_writing()
                    assert await call.read() is grpc.aio.EOF
                case "cancel":
                    await outcomes(call, 1)
                    call.cancel()

    for _ in range(10):
        await asyncio.gather(*(client() for _ in range(10)))
    async with asyncio.timeout(10):
        while host.sessions():
            await asyncio.sleep(0)
        while threading.active_count() > before:
            await asyncio.sleep(0)
    assert caplog.records == []


async def test_a_stop_answers_what_is_under_way_and_tells_why_the_stream_ends(
    host: SessionManager, gates: Gates
) -> None:
    server = GrpcServer(host, stop_grace_s=5)
    await server.__aenter__()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.ports[0]}") as channel:
        call: Any = session_pb2_grpc.SessionServiceStub(channel).Connect()
        await call.write(
            request(opening(environment="slow"), resetting(), stepping(action='{"text":"wait"}'))
        )
        await outcomes(call, 2)
        stopping = asyncio.create_task(server.__aexit__(None, None, None))
        await host.until_draining()
        gates.leave.set()
        assert (await outcomes(call, 1))[0].WhichOneof("kind") == "step"
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        async with asyncio.timeout(4):  # less than the grace
            await stopping
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    error = decode_status(dict(caught.value.trailing_metadata())["grpc-status-details-bin"])
    assert error is not None
    assert error.reason.name == "UNAVAILABLE"
    assert host.sessions() == []


async def test_a_server_that_cannot_bind_lets_go_of_what_it_bound(
    host: SessionManager, server: GrpcServer
) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = f"127.0.0.1:{probe.getsockname()[1]}"
    taken = f"127.0.0.1:{server.ports[0]}"
    with pytest.raises(UnavailableError, match=taken):
        async with GrpcServer(host, addresses=(free, taken)):
            pass
    async with GrpcServer(host, addresses=(free,), stop_grace_s=0) as second:
        assert f"127.0.0.1:{second.ports[0]}" == free


def test_it_serves_on_uvloop() -> None:
    uvloop = pytest.importorskip("uvloop")

    async def drive() -> None:
        countdown = EnvironmentDefinition(
            factory=Countdown, action_type=Count, observation_type=Counted
        )
        async with (
            SessionManager([countdown]) as host,
            GrpcServer(host, stop_grace_s=0) as server,
            grpc.aio.insecure_channel(f"127.0.0.1:{server.ports[0]}") as channel,
        ):
            call: Any = session_pb2_grpc.SessionServiceStub(channel).Connect()
            await call.write(request(opening(), resetting(), stepping()))
            assert (await outcomes(call, 3))[2].step.reward == 1.0
            call.cancel()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(drive())


async def test_a_peer_that_hears_nothing_is_found_by_pings_and_its_session_ends(
    host: SessionManager,
) -> None:
    async with (
        asyncio.timeout(30),
        GrpcServer(host, stop_grace_s=0, ping_interval_s=0.2, ping_timeout_s=0.2) as server,
        proxied(server.ports[0], random.Random(7)) as proxy,
        grpc.aio.insecure_channel(f"127.0.0.1:{proxy.port}") as channel,
    ):
        call: Any = session_pb2_grpc.SessionServiceStub(channel).Connect()
        await call.write(request(opening(environment="countdown")))
        await outcomes(call, 1)
        proxy.deafen()
        while host.sessions():
            await asyncio.sleep(0.01)


async def test_a_peer_that_is_merely_silent_keeps_its_session(host: SessionManager) -> None:
    async with (
        GrpcServer(host, stop_grace_s=0, ping_interval_s=0.05, ping_timeout_s=5) as server,
        grpc.aio.insecure_channel(f"127.0.0.1:{server.ports[0]}") as channel,
    ):
        call: Any = session_pb2_grpc.SessionServiceStub(channel).Connect()
        await call.write(request(opening(environment="countdown")))
        await outcomes(call, 1)
        await asyncio.sleep(0.5)  # several pings
        await call.write(request(stepping(request_id=2)))
        assert (await outcomes(call, 1))[0].HasField("step")
