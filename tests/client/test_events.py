"""What a client is told beside the answers to its calls: progress, and events of its session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from openenv_bridge import Bridge
from openenv_grpc import GenericEnvClient, MCPToolClient
from openenv_grpc.client import Draining, Event, Progress, SessionLost, ToolCalled, connection
from openenv_grpc.client.events import MAX_KEPT, EventLog
from openenv_grpc.client.link import Link
from openenv_grpc.engine import EngineSettings, EnvironmentDefinition, SessionManager
from openenv_grpc.errors import (
    DrainingError,
    InvalidRequestError,
    NotSupportedError,
    Reason,
    SessionClosedError,
)
from openenv_grpc.server import GrpcServer
from openenv_grpc.tools import ToolLog, ToolProgress
from openenv_grpc.types import Action, Observation
from openenv_grpc.v1 import session_pb2
from tests.client.conftest import TOOLS, TURNS
from tests.client.environments import Gate
from tests.client.peers import ConnectPeer, serve_socket
from tests.client.test_moving import until_moved
from tests.environments import Library

LIMIT_S = 20
BEAT_S = 0.05


class Served:
    """A host and its doors."""

    def __init__(self, host: SessionManager, server: GrpcServer, bridge: Bridge) -> None:
        self.host = host
        self.urls = {
            "grpc": f"grpc://127.0.0.1:{server.ports[0]}",
            "ws": f"ws://127.0.0.1:{bridge.port}",
        }
        self.http = f"http://127.0.0.1:{bridge.port}"


@asynccontextmanager
async def serving() -> AsyncIterator[Served]:
    async with (
        asyncio.timeout(LIMIT_S),
        SessionManager([TURNS, TOOLS], EngineSettings()) as host,
        GrpcServer(host, stop_grace_s=0.1, progress_interval_s=BEAT_S) as server,
        Bridge(host, progress_interval_s=BEAT_S) as bridge,
    ):
        yield Served(host, server, bridge)


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving() as served:
        yield served


@pytest.fixture(params=["grpc", "ws"])
def url(request: pytest.FixtureRequest, served: Served) -> str:
    return served.urls[request.param]


async def test_a_long_step_tells_its_progress(url: str, gate: Gate) -> None:
    told: list[Progress] = []
    enough = asyncio.Event()

    def on_progress(progress: Progress) -> None:
        told.append(progress)
        if len(told) == 3:
            enough.set()

    async with GenericEnvClient(url, on_progress=on_progress) as client:
        step = asyncio.create_task(client.step({"op": "wait", "text": gate.name}))
        await enough.wait()
        gate.opened.set()
        assert (await step).observation["turn"] == 1
    times = [progress.elapsed_s for progress in told]
    assert {progress.call for progress in told} == {"step"}
    assert times == sorted(set(times))
    assert times[0] > 0


@pytest.mark.parametrize("door", ["grpc", "ws"])
async def test_a_call_tells_what_its_tool_tells(door: str) -> None:
    library = EnvironmentDefinition(
        factory=Library, action_type=Action, observation_type=Observation, name="library"
    )
    told: list[Progress] = []
    async with (
        asyncio.timeout(LIMIT_S),
        SessionManager([library]) as host,
        GrpcServer(host, stop_grace_s=0.1, progress_interval_s=3600) as server,
        Bridge(host, progress_interval_s=3600) as bridge,
        MCPToolClient(Served(host, server, bridge).urls[door], on_progress=told.append) as client,
    ):
        assert str(await client.call_tool("work", steps=2)).startswith("done")
    assert {each.call for each in told} == {"the tool work"}
    assert [each.message for each in told] == ["step 1", "step 2", ""]
    assert [each.report for each in told] == [
        ToolProgress(progress=1.0, total=2.0, message="step 1"),
        ToolProgress(progress=2.0, total=2.0, message="step 2"),
        ToolLog(level="warning", data={"steps": 2}, logger="work"),
    ]


async def test_a_callback_that_fails_is_logged_and_the_step_goes_on(
    url: str, gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    def on_progress(progress: Progress) -> None:
        gate.opened.set()
        raise ValueError("no display")

    async with GenericEnvClient(url, on_progress=on_progress) as client:
        assert (await client.step({"op": "wait", "text": gate.name})).observation["turn"] == 1
    assert "on_progress failed" in caplog.text


async def test_tool_calls_of_an_agent_are_events_over_every_door(url: str, served: Served) -> None:
    async with GenericEnvClient(url, environment="ToolEnvironment", events=True) as trainer:
        events = trainer.events()
        session_id = (await trainer.agent_access()).session_id
        await _call_by_mcp(served, session_id, "add", {"a": 4, "b": 4})
        called = await anext(events)
        assert isinstance(called, ToolCalled)
        assert (called.tool_name, called.arguments, called.data) == ("add", {"a": 4, "b": 4}, 8)
        assert (called.failed, called.error, called.reward) == (False, None, None)
        assert called.content[0]["text"] == "8"
        assert called.time > 1e9
        await _call_by_mcp(served, session_id, "missing", {})
        failed = await anext(events)
        assert isinstance(failed, ToolCalled)
        assert failed.failed
        assert failed.error is not None
        assert failed.error.reason is Reason.TOOL_NOT_FOUND


async def _call_by_mcp(
    served: Served, session_id: str, name: str, arguments: dict[str, Any]
) -> None:
    params = {"session_id": session_id, "name": name, "arguments": arguments}
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    async with (
        aiohttp.ClientSession() as http,
        http.post(f"{served.http}/ToolEnvironment/mcp", json=request) as response,
    ):
        assert response.status == 200


async def test_the_loss_of_a_session_is_an_event_and_the_next_session_tells_on(
    url: str, served: Served
) -> None:
    async with GenericEnvClient(url, events=True) as client:
        events = client.events()
        (session,) = served.host.sessions()
        served.host.end_session(session.session_id, SessionClosedError("closed by an operator"))
        lost = await anext(events)
        assert isinstance(lost, SessionLost)
        assert lost.error.reason is Reason.SESSION_CLOSED
        await client.reset()
        (session,) = served.host.sessions()
        served.host.end_session(session.session_id, SessionClosedError("again"))
        assert "again" in str(await anext(events))


async def test_the_iteration_ends_with_the_client(url: str) -> None:
    told: list[Event] = []

    async def listen(client: GenericEnvClient) -> None:
        told.extend([event async for event in client.events()])

    client = GenericEnvClient(url, events=True)
    async with client:
        listening = asyncio.create_task(listen(client))
        await client.reset()
    await listening
    assert told == []


async def test_a_client_that_did_not_ask_has_no_events(url: str) -> None:
    async with GenericEnvClient(url) as client:
        with pytest.raises(InvalidRequestError, match="events=True"):
            client.events()


async def test_a_blocking_client_waits_for_events(url: str, served: Served) -> None:
    client = GenericEnvClient(url, events=True).sync()
    await asyncio.to_thread(client.connect)
    (session,) = served.host.sessions()
    served.host.end_session(session.session_id, SessionClosedError("closed by an operator"))
    events = client.events()
    assert isinstance(await asyncio.to_thread(next, events), SessionLost)
    waiting = asyncio.create_task(asyncio.to_thread(next, events, None))
    await asyncio.to_thread(client.close)
    assert await waiting is None


async def test_a_draining_server_is_told_and_gets_no_new_sessions_by_the_old_connection(
    url: str, served: Served
) -> None:
    async with GenericEnvClient(url, events=True) as client:
        await client.reset()
        served.host.drain(30)
        told = await anext(client.events())
        assert isinstance(told, Draining)
        assert told.remaining_s is not None
        assert 0 < told.remaining_s <= 30
        with pytest.raises(DrainingError):
            await GenericEnvClient(url).connect()
        assert (await client.step({})).observation["turn"] == 1


async def test_after_a_drain_new_sessions_get_a_connection_of_their_own() -> None:
    peer = ConnectPeer()
    async with peer.serve() as url, GenericEnvClient(url) as first:
        assert list(peer.messages[0].client.features) == ["draining"]
        async with GenericEnvClient(url):
            assert len(peer.sockets) == 1
        draining = session_pb2.Outcome(session=-1)
        draining.event.draining.SetInParent()
        await peer.send(draining)
        await first.step({})
        async with GenericEnvClient(url):
            assert len(peer.sockets) == 2
        await first.step({})


@pytest.mark.parametrize("binary", [True, False], ids=["ours", "json"])
async def test_a_server_without_events_is_told_apart(binary: bool) -> None:
    async def silent(socket: Any) -> None:
        await socket.receive()

    peer = ConnectPeer()
    serve = peer.serve() if binary else serve_socket(silent, binary=False)
    async with serve as url:
        with pytest.raises(NotSupportedError, match="events=True"):
            await GenericEnvClient(url, events=True).connect()


async def test_what_the_server_tells_again_after_a_cut_connection(served: Served) -> None:
    client = GenericEnvClient(served.urls["ws"], environment="ToolEnvironment", events=True)
    async with client:
        session_id = (await client.agent_access()).session_id
        session = client._session
        assert session is not None
        connection = session._ride._stream.connection  # type: ignore[attr-defined]
        await connection._transport.close()
        await client.state()  # over another
        await _call_by_mcp(served, session_id, "add", {"a": 2, "b": 2})
        called = await anext(client.events())
        assert isinstance(called, ToolCalled)
        assert called.data == 4


async def test_what_is_told_of_a_session_that_has_moved(
    url: str, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "LARGE_BYTES", 1)  # so that anything has it move
    monkeypatch.setattr(Link, "has_small", True)
    async with (
        GenericEnvClient(url, environment="ToolEnvironment", events=True) as trainer,
        GenericEnvClient(url, environment="ToolEnvironment"),
    ):
        events, access = trainer.events(), await trainer.agent_access()
        await trainer.state()
        await until_moved()
        for number in range(3):
            await _call_by_mcp(served, access.session_id, "add", {"a": number, "b": 1})
            called = await anext(events)
            assert isinstance(called, ToolCalled)
            assert called.data == number + 1
            await trainer.state()
        assert await trainer.agent_access() == access
        served.host.end_session(access.session_id, SessionClosedError("enough"))
        lost = await anext(events)
        assert isinstance(lost, SessionLost)
        assert lost.error.message.startswith("enough")


async def test_a_step_after_a_move_tells_its_progress(
    url: str, served: Served, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "LARGE_BYTES", 1)
    monkeypatch.setattr(Link, "has_small", True)
    told = asyncio.Event()
    async with (
        GenericEnvClient(url, on_progress=lambda _: told.set()) as client,
        GenericEnvClient(url),
    ):
        await client.step({})
        await until_moved()
        step = asyncio.create_task(client.step({"op": "wait", "text": gate.name}))
        await told.wait()
        gate.opened.set()
        assert (await step).observation["turn"] == 2


async def test_only_the_latest_events_are_kept(caplog: pytest.LogCaptureFixture) -> None:
    log = EventLog()
    for number in range(MAX_KEPT + 3):
        log.put(Draining(remaining_s=number))
    log.close()
    kept = [event async for event in log]
    assert (len(kept), kept[0]) == (MAX_KEPT, Draining(remaining_s=3))
    assert "event dropped" in caplog.text
