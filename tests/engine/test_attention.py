"""When a host's event loop looks for what is asked next."""

from __future__ import annotations

import asyncio

import pytest

from openenv_grpc import busy_polling
from openenv_grpc.engine import EngineSettings
from openenv_grpc.engine.attention import Attention
from openenv_grpc.errors import ConfigurationError
from openenv_grpc.operations import Kind
from tests.engine.talking import opened, received
from tests.environments import Countdown, Gates, InlineCountdown, Slow

LOOKING = EngineSettings(busy_poll_s=0.0005)


class Waits:
    """Notes what polling would be told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def begin(self) -> None:
        self.told.append("begin")

    def end(self) -> None:
        self.told.append("end")


class Looks:
    """How often loops have looked, in place of giving way."""

    def __init__(self) -> None:
        self.number = 0

    def __call__(self) -> None:
        self.number += 1


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    made = Looks()
    monkeypatch.setattr(busy_polling, "_give_way", made)
    return made


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_a_wait_begins_with_the_last_answer_and_ends_with_the_first_question() -> None:
    waits = Waits()
    attention = Attention(waits)

    attention.asked()
    attention.asked()
    attention.answered()
    assert waits.told == ["end"]
    attention.answered()
    attention.asked()

    assert waits.told == ["end", "begin", "end"]


@pytest.mark.parametrize("environment", [Countdown, InlineCountdown])
async def test_what_is_asked_next_is_looked_for(looks: Looks, environment: type[Countdown]) -> None:
    async with opened(environment, settings=LOOKING) as caller:
        await caller.reset()
        await turns()
        assert looks.number > 0


async def test_nothing_is_looked_for_while_an_environment_steps(looks: Looks) -> None:
    gates = Gates()
    async with opened(lambda: Slow(gates), settings=LOOKING) as caller:
        await caller.reset()
        step = caller.send(Kind.STEP, {"text": "wait"})
        before = looks.number
        await turns()
        assert looks.number == before
        gates.leave.set()
        await received(step)


async def test_a_server_need_not_look(looks: Looks) -> None:
    async with opened(Countdown, settings=EngineSettings(busy_poll_s=0)) as caller:
        await caller.reset()
        await turns()
        assert looks.number == 0


@pytest.mark.parametrize("limit_s", [-0.1, 0.2, float("nan")])
def test_a_time_that_is_none_is_refused(limit_s: float) -> None:
    with pytest.raises(ConfigurationError, match=r"busy_poll_s is from 0, for never, to 0\.1"):
        EngineSettings(busy_poll_s=limit_s)


def test_the_variable_says_what_settings_leave_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENENV_GRPC_BUSY_POLL_US", "7")
    assert EngineSettings().busy_poll_s == 7e-6
