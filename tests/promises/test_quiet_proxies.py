"""Connections that fall silent, or are taken for silent: the session goes on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest

from openenv_bridge import Bridge
from openenv_grpc.client import EnvClient
from openenv_grpc.engine import EngineSettings, EnvironmentDefinition, SessionManager
from openenv_grpc.server import GrpcServer
from openenv_grpc.types import State
from tests.exactly_once.counting import Counting, Gate, Tally, Token
from tests.promises.quiet_proxy import QuietProxy, quiet_proxy

REAL_TIME = [pytest.mark.slow, pytest.mark.soak, pytest.mark.timeout(400)]


class CountingClient(EnvClient[Token, Tally, State]):
    pass


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How long things take."""

    limit_s: float = 60
    pings: tuple[float, float] | None = None
    """Of the server: interval, 0 for never, and timeout; its defaults if not given."""
    silence_s: float = 30
    """After which the proxy cuts."""
    real_s: float = 0
    """How long a client is idle, blocked or busy at least."""


PINGED = Pace(pings=(0.2, 0.5))
UNPINGED = Pace(pings=(0, 0.5), silence_s=0.4)


def paces(scaled: Pace, *, real_s: float) -> pytest.MarkDecorator:
    real = Pace(limit_s=350, real_s=real_s)
    in_real_time = pytest.param(real, id="real time", marks=REAL_TIME)
    return pytest.mark.parametrize("pace", [pytest.param(scaled, id="scaled"), in_real_time])


@dataclass(frozen=True)
class Served:
    url: str
    proxy: QuietProxy
    host: SessionManager
    gate: Gate

    @property
    def attached(self) -> bool:
        [session] = self.host.sessions()
        return session.peer != ""


@pytest.fixture(params=["grpc", "ws"])
async def served(
    request: pytest.FixtureRequest, pace: Pace, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Served]:
    gate = Gate()
    gate.limit_s = pace.limit_s
    monkeypatch.setattr(Counting, "gate", gate)
    counting = EnvironmentDefinition(
        factory=Counting, action_type=Token, observation_type=Tally, session_timeout_s=pace.limit_s
    )
    pings = (
        {}
        if pace.pings is None
        else dict(zip(("ping_interval_s", "ping_timeout_s"), pace.pings, strict=True))
    )
    async with AsyncExitStack() as stack:
        host = await stack.enter_async_context(SessionManager([counting], EngineSettings()))
        if request.param == "grpc":
            port = (
                await stack.enter_async_context(GrpcServer(host, stop_grace_s=0.1, **pings))
            ).ports[0]
        else:
            port = (await stack.enter_async_context(Bridge(host, **pings))).port
        proxy = await stack.enter_async_context(quiet_proxy(request.param, port))
        yield Served(f"{request.param}://127.0.0.1:{proxy.port}", proxy, host, gate)
        gate.leave.set()


async def until(condition: Callable[[], bool], pace: Pace) -> None:
    """Waits for a condition, and for as long as the pace says."""
    async with asyncio.timeout(pace.limit_s):
        await asyncio.sleep(pace.real_s)
        while not condition():
            await asyncio.sleep(0.005)


@paces(PINGED, real_s=60)
async def test_an_idle_session_outlives_a_proxy_that_swallows_pings(
    served: Served, pace: Pace
) -> None:
    async with CountingClient(served.url) as client:
        first = (await client.step(Token(token="first"))).observation
        served.proxy.swallows = True
        enough = 3 if pace is PINGED else 1  # by default heartbeats in messages may do
        await until(lambda: served.proxy.connections >= enough, pace)
        served.proxy.swallows = False
        second = (await client.step(Token(token="second"))).observation
        assert (second.token, second.steps, second.instance) == ("second", 2, first.instance)


@paces(PINGED, real_s=90)
async def test_a_client_whose_loop_stands_still_keeps_its_session(
    served: Served, pace: Pace
) -> None:
    stands_still, goes_on = threading.Event(), threading.Event()

    async def train() -> None:
        # Pings and the usual window bridge 80 s over a WebSocket, if it comes at its worst.
        async with CountingClient(served.url, resume_window_s=120) as client:
            first = (await client.step(Token(token="first"))).observation
            stands_still.set()
            goes_on.wait(pace.limit_s)
            second = (await client.step(Token(token="second"))).observation
            assert (second.token, second.steps, second.instance) == ("second", 2, first.instance)

    training = asyncio.create_task(asyncio.to_thread(asyncio.run, train()))
    try:
        assert await asyncio.to_thread(stands_still.wait, pace.limit_s)
        if served.url.startswith("grpc"):
            pongs = served.proxy.pongs
            await until(lambda: served.proxy.pongs >= pongs + 3, pace)
            assert served.attached
        else:
            await until(lambda: not served.attached, pace)
    finally:
        goes_on.set()
        await training
    assert served.proxy.connections == (1 if served.url.startswith("grpc") else 2)


@paces(UNPINGED, real_s=120)
async def test_a_long_step_outlives_a_proxy_that_cuts_what_is_silent(
    served: Served, pace: Pace
) -> None:
    async with CountingClient(served.url, message_timeout_s=pace.limit_s) as client:
        await client.reset()
        served.proxy.silence_s = pace.silence_s
        step = asyncio.create_task(client.step(Token(token="long", wait=True)))
        cuts = 2 if pace is UNPINGED else 0  # by default pings keep the proxy from it
        await until(lambda: served.gate.entered.is_set() and served.proxy.cuts >= cuts, pace)
        served.gate.leave.set()
        tally = (await step).observation
        assert (tally.token, tally.steps) == ("long", 1)
        served.proxy.silence_s = None
        assert (await client.step(Token(token="next"))).observation.steps == 2
