from __future__ import annotations

import json

import pytest

from openenv_bridge.jsonrpc import ReplyTo
from openenv_bridge.leases import Leases
from openenv_grpc.engine import EngineSettings, SessionManager
from openenv_grpc.errors import (
    OpenEnvError,
    RequestConflictError,
    SessionCapacityError,
    SessionNotFoundError,
)
from tests.bridge.gates import Gate


async def opened(leases: Leases) -> str:
    """Opens a session and returns its id."""
    reply = await leases.open("gate", ReplyTo(1), peer="test")
    session_id: str = json.loads(reply.content)["result"]["session_id"]
    return session_id


async def test_a_session_that_nobody_uses_ends(gate: Gate) -> None:
    async with SessionManager([gate.definition()]) as manager, manager.attach(peer="t") as held:
        leases = Leases(manager, held)
        session_id = await opened(leases)
        leases.end_idle(max_idle_s=3600)
        assert leases.find(session_id).id == session_id
        leases.end_idle(max_idle_s=0)
        with pytest.raises(SessionNotFoundError, match=f"Unknown session_id: {session_id}"):
            leases.find(session_id)


async def test_a_session_with_a_socket_attached_does_not_end(gate: Gate) -> None:
    async with SessionManager([gate.definition()]) as manager, manager.attach(peer="t") as held:
        leases = Leases(manager, held)
        session_id = await opened(leases)
        leases.attach(session_id, lambda error: None)
        leases.end_idle(max_idle_s=0)
        assert leases.find(session_id).id == session_id


async def test_one_socket_attaches_at_a_time(gate: Gate) -> None:
    async with SessionManager([gate.definition()]) as manager, manager.attach(peer="t") as held:
        leases = Leases(manager, held)
        session = leases.attach(await opened(leases), lambda error: None)
        with pytest.raises(RequestConflictError, match="already has an attached WebSocket"):
            leases.attach(session.id, lambda error: None)
        await leases.detach(session)
        assert leases.attach(session.id, lambda error: None) is session


async def test_a_socket_is_told_when_its_session_ends(gate: Gate) -> None:
    told: list[OpenEnvError] = []
    async with SessionManager([gate.definition()]) as manager, manager.attach(peer="t") as held:
        leases = Leases(manager, held)
        session = leases.attach(await opened(leases), told.append)
        manager.end_session(session.id, RequestConflictError("ended"))
        assert [error.message for error in told] == ["ended"]


async def test_a_session_that_a_connection_holds_is_ended_at_once(gate: Gate) -> None:
    async with SessionManager([gate.definition()]) as manager, manager.attach(peer="t") as held:
        leases = Leases(manager, held)
        async with manager.attach(peer="another") as connection:
            session = connection.open("gate")
            session_id = session.id
            with pytest.raises(RequestConflictError, match="still initializing"):
                leases.end(session_id)


async def test_leases_are_opened_as_often_as_their_peer_may_open_some(gate: Gate) -> None:
    settings = EngineSettings(opens_per_minute=1)
    async with (
        SessionManager([gate.definition()], settings) as manager,
        manager.attach(peer="bridge") as held,
    ):
        gate.open.set()
        leases = Leases(manager, held)
        await leases.open("gate", ReplyTo(1), peer="10.0.0.1")
        with pytest.raises(SessionCapacityError, match="--opens-per-minute"):
            await leases.open("gate", ReplyTo(2), peer="10.0.0.1")
        assert manager.metrics.opens_limited == 1
        await leases.open("gate", ReplyTo(3), peer="10.0.0.2")
