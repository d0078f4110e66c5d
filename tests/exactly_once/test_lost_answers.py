"""An operation is done, its answer is lost with the connection, and its caller gets it anyway."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from openenv_grpc.client import EnvClient
from openenv_grpc.errors import (
    DeadlineExceededError,
    Effect,
    SessionExpiredError,
    SessionNotFoundError,
    UnavailableError,
)
from openenv_grpc.types import State
from tests.exactly_once.conftest import Served
from tests.exactly_once.counting import Counting, Gate, Tally, Token

LIMIT_S = 10


class CountingClient(EnvClient[Token, Tally, State]):
    pass


async def until(condition: Callable[[], bool]) -> None:
    """Waits for what the server does."""
    async with asyncio.timeout(LIMIT_S):
        while not condition():
            await asyncio.sleep(0.001)


async def until_stepped(served: Served, count: int) -> None:
    await until(lambda: served.host.sessions()[0].step_count == count)


async def entered(gate: Gate) -> None:
    assert await asyncio.to_thread(gate.entered.wait, LIMIT_S)


async def test_the_answer_to_a_step(served: Served) -> None:
    async with CountingClient(served.url) as client, asyncio.timeout(LIMIT_S):
        await client.reset()
        served.proxy.deafen()
        step = asyncio.create_task(client.step(Token(token="lost")))
        await until_stepped(served, 1)
        served.proxy.cut()
        tally = (await step).observation
        assert (tally.token, tally.steps) == ("lost", 1)
        assert (await client.step(Token(token="next"))).observation.steps == 2


async def test_the_answer_to_an_open(served: Served) -> None:
    async with CountingClient(served.url) as first, asyncio.timeout(LIMIT_S):
        await first.reset()
        second = CountingClient(served.url)
        served.proxy.deafen()
        connect = asyncio.create_task(second.connect())
        await until(lambda: len(served.host.sessions()) == 2)
        served.proxy.cut()
        await connect
        assert len(served.host.sessions()) == 2
        assert (await second.step(Token(token="second"))).observation.steps == 1
        assert (await first.step(Token(token="first"))).observation.steps == 1
        assert served.proxy.connections == 2
        await second.close()


async def test_the_answer_to_a_close(served: Served) -> None:
    client = CountingClient(served.url)
    instance = (await client.reset()).observation.instance
    served.proxy.deafen()
    close = asyncio.create_task(client.close())
    await until(lambda: (instance, 0) in Counting.closed)
    served.proxy.cut()
    async with asyncio.timeout(5):
        await close
    assert Counting.closed.count((instance, 0)) == 1
    assert served.host.sessions() == []


async def test_a_step_that_never_arrived_is_done_later(served: Served) -> None:
    async with CountingClient(served.url) as client, asyncio.timeout(LIMIT_S):
        await client.reset()
        served.proxy.refuses = True
        served.proxy.cut()
        await until(lambda: served.host.sessions()[0].peer == "")
        steps = [asyncio.create_task(client.step(Token(token=str(n)))) for n in range(3)]
        await asyncio.sleep(0)
        served.proxy.refuses = False
        tallies = [(await step).observation for step in steps]
        assert [(tally.token, tally.steps) for tally in tallies] == [("0", 1), ("1", 2), ("2", 3)]


async def test_a_long_step_goes_on_without_its_connection(served: Served, gate: Gate) -> None:
    async with CountingClient(served.url) as client, asyncio.timeout(LIMIT_S):
        await client.reset()
        step = asyncio.create_task(client.step(Token(token="long", wait=True)))
        await entered(gate)
        for _ in range(3):
            before = served.proxy.connections
            served.proxy.cut()
            await until(lambda before=before: served.proxy.connections > before)
        gate.leave.set()
        tally = (await step).observation
        assert (tally.token, tally.steps) == ("long", 1)


async def test_after_giving_up_and_losing_the_connection_the_next_step_gets_its_own_answer(
    served: Served, gate: Gate
) -> None:
    async with CountingClient(served.url, message_timeout_s=1) as client:
        await client.reset()
        with pytest.raises(DeadlineExceededError) as caught:
            await client.step(Token(token="given up", wait=True))
        assert (caught.value.effect, caught.value.session_lost) == (Effect.UNKNOWN, False)
        served.proxy.cut()
        gate.leave.set()
        for number in range(20):
            tally = (await client.step(Token(token=f"{number}"))).observation
            assert (tally.token, tally.steps) == (f"{number}", number + 2)


async def test_a_silent_connection_is_given_up_and_made_anew(served: Served) -> None:
    client = CountingClient(
        served.url, websocket_ping_interval_s=0.05, websocket_ping_timeout_s=0.2
    )
    async with client, asyncio.timeout(LIMIT_S):
        await client.reset()
        served.proxy.deafen()
        assert (await client.step(Token(token="heard"))).observation.steps == 1
        assert served.proxy.connections == 2


async def test_a_cancelled_step_is_cancelled_on_the_next_connection(
    served: Served, gate: Gate
) -> None:
    async with CountingClient(served.url) as client, asyncio.timeout(LIMIT_S):
        await client.reset()
        running = asyncio.create_task(client.step(Token(token="long", wait=True)))
        await entered(gate)
        served.proxy.deafen()
        queued = asyncio.create_task(client.step(Token(token="queued")))
        served.proxy.refuses = True
        served.proxy.cut()
        await until(lambda: served.host.sessions()[0].peer == "")
        queued.cancel()
        with pytest.raises(asyncio.CancelledError):
            await queued
        served.proxy.refuses = False
        await until(lambda: served.host.sessions()[0].peer != "")
        gate.leave.set()
        assert (await running).observation.token == "long"
        last = (await client.step(Token(token="last"))).observation
        assert (last.token, last.steps) == ("last", 2)


# Where the connection does not come back


async def test_past_the_window_there_is_one_typed_error_and_reset_opens_anew(
    served: Served, gate: Gate
) -> None:
    client = CountingClient(served.url, resume_window_s=1.0)
    async with asyncio.timeout(LIMIT_S):
        first = (await client.reset()).observation.instance
        sent = asyncio.create_task(client.step(Token(wait=True)))
        await entered(gate)
        served.proxy.refuses = True
        served.proxy.cut()
        await until(lambda: served.host.sessions()[0].peer == "")
        unsent = asyncio.create_task(client.step(Token()))
        for step, effect in ((sent, Effect.UNKNOWN), (unsent, Effect.NONE)):
            with pytest.raises(UnavailableError, match=r"window of 1 s") as caught:
                await step
            assert (caught.value.effect, caught.value.session_lost) == (effect, True)
        with pytest.raises(UnavailableError, match=r"call reset\(\)"):
            await client.step(Token())
        with pytest.raises(UnavailableError):
            await client.reset()
        served.proxy.refuses = False
        gate.leave.set()
        assert (await client.reset()).observation.instance > first
        await client.close()


async def test_a_session_that_is_gone_on_return_is_told_so_once(served: Served) -> None:
    async with CountingClient(served.url) as client, asyncio.timeout(LIMIT_S):
        await client.reset()
        served.proxy.refuses = True
        served.proxy.cut()
        await until(lambda: served.host.sessions()[0].peer == "")
        [info] = served.host.sessions()
        served.host.windows.stop()
        served.host.end_session(info.session_id, SessionExpiredError("by the test"))
        served.proxy.refuses = False
        with pytest.raises(SessionNotFoundError) as caught:
            await client.step(Token())
        assert caught.value.session_lost
        with pytest.raises(SessionNotFoundError, match=r"call reset\(\)"):
            await client.step(Token())
        assert (await client.reset()).observation.resets == 1


async def test_a_session_that_ended_meanwhile_tells_why(served: Served) -> None:
    async with CountingClient(served.url) as client, asyncio.timeout(LIMIT_S):
        await client.reset()
        served.proxy.refuses = True
        served.proxy.cut()
        await until(lambda: served.host.sessions()[0].peer == "")
        [info] = served.host.sessions()
        served.host.end_session(info.session_id, SessionExpiredError("too long"))
        served.proxy.refuses = False
        with pytest.raises(SessionExpiredError) as caught:
            await client.step(Token())
        assert (caught.value.effect, caught.value.session_lost) == (Effect.NONE, True)
        assert (await client.reset()).observation.resets == 1


@pytest.mark.parametrize("window_s", [None, 0])
async def test_without_a_window_a_session_ends_with_its_connection(
    served: Served, window_s: float | None
) -> None:
    async with CountingClient(served.url, resume_window_s=window_s) as client:
        await client.reset()
        served.proxy.cut()
        await until(lambda: served.host.sessions() == [])
        with pytest.raises(UnavailableError) as caught:
            while True:
                await client.step(Token())
        assert caught.value.session_lost


async def test_closing_without_a_server_ends_by_itself(served: Served) -> None:
    client = CountingClient(served.url, resume_window_s=0.2)
    await client.reset()
    served.proxy.refuses = True
    served.proxy.cut()
    async with asyncio.timeout(5):
        await client.close()
    await until(lambda: served.host.sessions() == [])


async def test_an_opening_that_is_given_up_leaves_no_session(served: Served, gate: Gate) -> None:
    async with CountingClient(served.url, environment="Counting") as first:
        await first.reset()
        second = CountingClient(served.url, message_timeout_s=0.001)
        with pytest.raises(DeadlineExceededError):
            while True:
                await second.connect()
                await second.close()
        await second.close()
        await until(lambda: len(served.host.sessions()) == 1)
    assert served.host.sessions() == []
