"""Over which of a server's workers a process spreads its sessions, and what if one is away."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from openenv_grpc import GenericEnvClient, Server, VectorEnvClient
from openenv_grpc.crew import Crew, WorkerAddress, worker_of
from openenv_grpc.engine import EnvironmentDefinition
from openenv_grpc.errors import InvalidRequestError, SessionCapacityError, UnavailableError
from openenv_grpc.types import Action, Observation
from tests.environments import Countdown

COUNTDOWN = EnvironmentDefinition(
    factory=Countdown, action_type=Action, observation_type=Observation
)


def port_of(server: Server) -> int:
    assert server.grpc_address is not None
    return int(server.grpc_address.rpartition(":")[2])


class Workers:
    """Servers that stand for the worker processes of one."""

    def __init__(self) -> None:
        self.servers: list[Server] = []
        self.crews: list[Crew] = []

    @property
    def url(self) -> str:
        return f"grpc://127.0.0.1:{port_of(self.servers[0])}"

    def acquaint(self, *ports: int) -> None:
        """Tells the workers where all are."""
        addresses = tuple(WorkerAddress(grpc_port=port) for port in ports)
        for crew in self.crews:
            crew.addresses = addresses

    def counts(self) -> list[int]:
        """Counts the sessions of each."""
        return [len(server._manager.sessions()) for server in self.servers]


@asynccontextmanager
async def workers(size: int, *, max_sessions: int, server_ids: str = "") -> AsyncIterator[Workers]:
    found = Workers()
    async with AsyncExitStack() as stack:
        for number in range(size):
            server_id = server_ids[number] if server_ids else "s"
            crew = Crew(server_id=server_id, worker=number, size=size)
            server = Server(
                COUNTDOWN, grpc_port=0, http_port=None, max_sessions=max_sessions, crew=crew
            )
            found.servers.append(await stack.enter_async_context(server))
            found.crews.append(crew)
        found.acquaint(*map(port_of, found.servers))
        yield found


async def opened(stack: AsyncExitStack, url: str, count: int) -> list[GenericEnvClient]:
    clients = [GenericEnvClient(url) for _ in range(count)]
    await asyncio.gather(*map(stack.enter_async_context, clients))
    return clients


async def test_sessions_that_are_opened_at_once_are_spread_evenly() -> None:
    async with workers(3, max_sessions=12) as found, AsyncExitStack() as stack:
        await opened(stack, found.url, 9)
        assert sorted(found.counts()) == [3, 3, 3]


async def test_a_session_is_opened_where_there_are_fewest() -> None:
    async with workers(2, max_sessions=12) as found, AsyncExitStack() as stack:
        clients = await opened(stack, found.url, 6)
        left = 0
        for client in clients:
            access = await client.agent_access()
            if worker_of(access.session_id) == 0 and left < 2:
                left += 1
                await client.disconnect()
        await opened(stack, found.url, 2)
        assert found.counts() == [3, 3]


async def test_another_server_at_a_workers_address_gets_no_session(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with workers(2, max_sessions=12, server_ids="ab") as found, AsyncExitStack() as stack:
        await opened(stack, found.url, 4)
        assert found.counts() == [4, 0]
    assert "is another server" in caplog.text


async def test_a_worker_that_cannot_be_reached_is_left_alone_and_that_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with workers(2, max_sessions=12) as found, AsyncExitStack() as stack:
        found.acquaint(port_of(found.servers[0]), 1)
        with caplog.at_level(logging.WARNING):
            for _ in range(4):
                await opened(stack, found.url, 1)
            assert found.counts() == [4, 0]
            envs = await stack.enter_async_context(VectorEnvClient(found.url, 2))
            await envs.reset()
        assert found.counts() == [6, 0]
    said = [each for each in caplog.records if "worker not reached" in each.message]
    assert len(said) == 1


async def test_a_client_stays_where_it_is_if_ports_are_mapped() -> None:
    async with workers(2, max_sessions=12) as found, AsyncExitStack() as stack:
        found.acquaint(50051, 50052)
        await opened(stack, found.url, 4)
        assert found.counts() == [4, 0]
        envs = await stack.enter_async_context(VectorEnvClient(found.url, 2))
        await envs.reset()
        assert found.counts() == [6, 0]


async def test_what_all_have_no_slot_for_waits_for_one() -> None:
    async with workers(2, max_sessions=2) as found, AsyncExitStack() as stack, asyncio.timeout(30):
        clients = await opened(stack, found.url, 2)
        with pytest.raises(SessionCapacityError):
            await GenericEnvClient(found.url, queue_timeout_s=0).connect()
        waiting = asyncio.create_task(opened(stack, found.url, 2))
        while sum(found.counts()) < 4:
            await asyncio.sleep(0.01)
        for client in clients:
            await client.disconnect()
        await waiting


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


@asynccontextmanager
async def back(found: Workers, port: int) -> AsyncIterator[Server]:
    """Starts the second worker at a port of its own."""
    crew = Crew(server_id="s", worker=1, size=2, addresses=found.crews[0].addresses)
    async with Server(
        COUNTDOWN, grpc_port=port, http_port=None, max_sessions=4, crew=crew
    ) as server:
        yield server


async def test_who_waits_for_a_slot_takes_one_of_a_worker_that_comes_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with workers(2, max_sessions=4) as found, AsyncExitStack() as stack, asyncio.timeout(30):
        port = free_port()
        found.acquaint(port_of(found.servers[0]), port)
        await opened(stack, found.url, 2)
        waiting = asyncio.create_task(opened(stack, found.url, 1))
        while "waiting for a free slot" not in caplog.text:
            await asyncio.sleep(0.01)
        server = await stack.enter_async_context(back(found, port))
        await waiting
        assert len(server._manager.sessions()) == 1
        while found.counts() != [2, 0]:  # its place in the line is given up
            await asyncio.sleep(0.01)


async def test_a_worker_that_is_back_is_left_alone_no_longer() -> None:
    async with workers(2, max_sessions=4) as found, AsyncExitStack() as stack, asyncio.timeout(30):
        port = free_port()
        found.acquaint(port_of(found.servers[0]), port)
        await opened(stack, found.url, 1)
        server = await stack.enter_async_context(back(found, port))
        await opened(stack, found.url, 2)
        assert len(server._manager.sessions()) == 1
        await opened(stack, found.url, 1)
        assert len(server._manager.sessions()) == 2


async def test_a_group_that_needs_every_worker_waits_for_the_one_that_is_away() -> None:
    async with workers(2, max_sessions=4) as found, AsyncExitStack() as stack, asyncio.timeout(30):
        port = free_port()
        found.acquaint(port_of(found.servers[0]), port)
        with pytest.raises(UnavailableError):
            await VectorEnvClient(found.url, 4, connect_timeout_s=0.3).connect()
        opening = asyncio.create_task(VectorEnvClient(found.url, 4).connect())
        server = await stack.enter_async_context(back(found, port))
        await stack.enter_async_context(await opening)
        assert (found.counts()[0], len(server._manager.sessions())) == (2, 2)


async def test_groups_that_want_the_same_slots_get_them_one_after_the_other() -> None:
    async with workers(2, max_sessions=4) as found, AsyncExitStack() as stack, asyncio.timeout(60):
        first = await stack.enter_async_context(VectorEnvClient(found.url, 3))
        assert found.counts() == [2, 1]

        async def play() -> Counter[int]:
            async with VectorEnvClient(found.url, 4) as envs:
                await envs.reset()
                return Counter(found.counts())

        playing = [asyncio.create_task(play()) for _ in range(3)]
        while max(found.counts()) < 3:  # one of them waits
            await asyncio.sleep(0.01)
        await first.close()
        for task in playing:
            await task
        while any(found.counts()):
            await asyncio.sleep(0.01)


async def test_a_group_that_gets_no_slots_leaves_no_part_of_it_open() -> None:
    async with workers(2, max_sessions=4) as found, AsyncExitStack() as stack, asyncio.timeout(60):
        await stack.enter_async_context(VectorEnvClient(found.url, 3))
        for timeout_s in (0.0, 1.0):
            with pytest.raises(SessionCapacityError):
                await VectorEnvClient(found.url, 3, queue_timeout_s=timeout_s).connect()
        while sum(found.counts()) > 3:
            await asyncio.sleep(0.01)
        too_many = "in each worker; open fewer together, or serve with --max-sessions 6"
        with pytest.raises(InvalidRequestError, match=too_many):
            await VectorEnvClient(found.url, 5).connect()


async def test_a_group_smaller_than_the_server_goes_where_there_are_fewest() -> None:
    async with workers(4, max_sessions=40) as found, AsyncExitStack() as stack:
        for _ in range(4):
            await stack.enter_async_context(VectorEnvClient(found.url, 2))
        assert found.counts() == [2, 2, 2, 2]
