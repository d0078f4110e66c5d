"""A client that does not read costs its server no more memory than the limit on a stream says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import grpc.aio
import pytest

from openenv_grpc.client.administration import Administration, administer
from openenv_grpc.v1 import session_pb2
from tests.promises.environments import Large
from tests.served_process import ServedProcess, start_server

STEPS = 60
IN_FLIGHT = 4
LIMIT_S = 100
STALL_S = 5
MOST_BYTES = 250 * 2**20
"""The 32 MiB that may be unsent, what is in flight, and copies that are on their way; of 600."""


@dataclass(frozen=True)
class Wire:
    """A connection whose client writes and reads as it likes."""

    write: Callable[[bytes], Awaitable[None]]
    read: Callable[[], Awaitable[bytes]]


@asynccontextmanager
async def grpc_wire(served: ServedProcess) -> AsyncIterator[Wire]:
    options = [("grpc.max_receive_message_length", -1)]
    async with grpc.aio.insecure_channel(served.address("grpc"), options=options) as channel:
        call: grpc.aio.StreamStreamCall[bytes, bytes] = channel.stream_stream(
            "/openenv_grpc.v1.SessionService/Connect"
        )()
        yield Wire(call.write, call.read)
        call.cancel()


@asynccontextmanager
async def websocket_wire(served: ServedProcess) -> AsyncIterator[Wire]:
    url = f"http://{served.address('http').removeprefix('http://')}/ws"
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(url, protocols=("openenv-grpc.v1",), max_msg_size=0) as socket,
    ):
        yield Wire(socket.send_bytes, socket.receive_bytes)
        socket._response.connection.transport.abort()


def peak_bytes(served: ServedProcess) -> int:
    """Returns the most memory that the server has ever had."""
    status = Path(f"/proc/{served.process.pid}/status").read_text(encoding="ascii")
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


def message(request_id: int) -> bytes:
    """Asks for a step, or with the first number for all that comes before it."""
    request = session_pb2.ConnectRequest()
    if request_id == 1:
        request.client.max_receive_size_bytes = 64 * 2**20
        request.operations.add(session=1, request_id=1).open.SetInParent()
    else:
        step = request.operations.add(session=1, request_id=request_id).step
        step.action.json = "{}"
    return request.SerializeToString()


async def send_steps(wire: Wire, administration: Administration) -> AsyncIterator[int]:
    """Sends steps, a few ahead of what the server has done; gives their number after each."""
    for number in range(1, STEPS + 1):
        while (await administration.list_sessions())[0].step_count < number - IN_FLIGHT:
            await asyncio.sleep(0.01)
        await wire.write(message(number + 1))
        yield number


async def outcomes(wire: Wire, count: int) -> list[session_pb2.Outcome]:
    found: list[session_pb2.Outcome] = []
    while len(found) < count:
        found += session_pb2.ConnectResponse.FromString(await wire.read()).outcomes
    return found


@pytest.mark.parametrize("open_wire", [grpc_wire, websocket_wire], ids=["grpc", "ws"])
async def test_who_does_not_read_costs_no_more_than_the_limit(
    tmp_path: Path, open_wire: Callable[[ServedProcess], Any]
) -> None:
    target = "tests.promises.environments:Large"
    with start_server(tmp_path, target, "--ping-interval=0") as served:
        async with (
            asyncio.timeout(LIMIT_S),
            open_wire(served) as wire,
            administer(f"grpc://{served.address('grpc')}", timeout_s=LIMIT_S) as administration,
        ):
            await wire.write(message(1))
            assert [outcome.WhichOneof("kind") for outcome in await outcomes(wire, 1)] == ["open"]
            before, sent = peak_bytes(served), 0
            with pytest.raises(TimeoutError):  # the server takes no more steps
                async with asyncio.timeout(STALL_S):
                    async for number in send_steps(wire, administration):
                        sent = number
            assert IN_FLIGHT < sent < STEPS
            held_bytes = peak_bytes(served) - before
            told = await outcomes(wire, sent)
            assert [outcome.request_id for outcome in told] == list(range(2, sent + 2))
            assert all(len(outcome.step.observation.json) > Large.SIZE for outcome in told)
            assert held_bytes < MOST_BYTES
