"""Our clients against a server of the reference, in a process of its own."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from openenv_grpc.client import EnvClient, GenericEnvClient, MCPToolClient
from openenv_grpc.errors import (
    DeadlineExceededError,
    EnvironmentFailedError,
    InvalidActionError,
    NotSupportedError,
    SessionCapacityError,
    ToolNotFoundError,
)
from openenv_grpc.tools import CallToolAction, ListToolsAction
from openenv_grpc.types import Action, Observation, State

pytestmark = pytest.mark.reference

SERVER = Path(__file__).with_name("reference_server.py")


class SayAction(Action):
    text: str
    wait_s: float = 0.0


class SayObservation(Observation):
    text: str = ""
    turn: int = 0


class SayClient(EnvClient[SayAction, SayObservation, State]):
    pass


@contextmanager
def serving(
    python: str, kind: str, *, max_sessions: int, mode: str = "simulation"
) -> Iterator[str]:
    with subprocess.Popen(
        [python, str(SERVER), kind, str(max_sessions)],
        env={**os.environ, "OPENENV_MODE": mode},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield f"127.0.0.1:{process.stdout.readline().split()[1]}"
        finally:
            process.kill()


@pytest.fixture(scope="module")
def address(reference_python: str) -> Iterator[str]:
    with serving(reference_python, "say", max_sessions=3) as address:
        yield address


@pytest.fixture(scope="module")
def tools_address(reference_python: str) -> Iterator[str]:
    with serving(reference_python, "tools", max_sessions=1) as address:
        yield address


@pytest.mark.parametrize("scheme", ["http://", "ws://", ""])
async def test_an_episode_runs(address: str, scheme: str) -> None:
    async with GenericEnvClient(scheme + address) as client:
        start = await client.reset(seed=3)
        assert start.observation["text"] == "seed 3"
        result = await client.step({"text": "hi"})
        assert (result.observation["turn"], result.reward, result.done) == (1, 0.5, False)
        assert result.metadata == {"n": 1}
        assert (await client.step({"text": "finish"})).terminated
        assert (await client.state())["step_count"] == 2


@pytest.mark.parametrize("scheme", ["http://", "ws://"])
def test_an_episode_runs_without_a_loop(address: str, scheme: str) -> None:
    with SayClient(scheme + address).sync() as client:
        assert client.reset(seed=3).observation.text == "seed 3"
        assert client.step(SayAction(text="hi")).observation.reward == 0.5
        assert client.state().step_count == 1


async def test_errors_are_typed_and_leave_the_session(address: str) -> None:
    async with GenericEnvClient(f"http://{address}") as client:
        with pytest.raises(EnvironmentFailedError, match="asked to fail"):
            await client.step({"text": "fail"})
        with pytest.raises(InvalidActionError) as refused:
            await client.step({"txt": 1})
        assert {violation.path for violation in refused.value.violations} == {"/text", "/txt"}
        with pytest.raises(NotSupportedError):
            await client.evaluate()
        assert (await client.step({"text": "on"})).observation["turn"] == 1


async def test_a_step_given_up_does_not_answer_the_next_one(address: str) -> None:
    async with GenericEnvClient(f"http://{address}") as client:
        with pytest.raises(DeadlineExceededError):
            await client.step({"text": "slow", "wait_s": 0.5}, timeout_s=0.1)
        result = await client.step({"text": "next"})
        assert (result.observation["text"], result.observation["turn"]) == ("next", 2)


async def test_capacity_is_told_and_a_later_reset_opens_anew(address: str) -> None:
    holders = [GenericEnvClient(f"ws://{address}") for _ in range(3)]
    await asyncio.gather(*(holder.reset() for holder in holders))
    client = GenericEnvClient(f"ws://{address}")
    with pytest.raises(SessionCapacityError, match="CAPACITY_REACHED") as caught:
        await client.reset()
    assert caught.value.metadata["max_sessions"] == "3"
    await holders.pop().close()
    await client.reset()
    await asyncio.gather(*(holder.close() for holder in [*holders, client]))


async def test_tools_are_listed_and_called(tools_address: str) -> None:
    async with MCPToolClient(f"http://{tools_address}") as client:
        await client.reset()
        assert [tool.name for tool in await client.list_tools()] == ["add", "boom"]
        assert await client.call_tool("add", a=1, b=2) == 3
        with pytest.raises(EnvironmentFailedError, match="it broke"):
            await client.call_tool("boom")
        with pytest.raises(ToolNotFoundError):
            await client.call_tool("nosuch")
        listed = await client.step(ListToolsAction())
        assert len(listed.observation.tools) == 2
        called = await client.step(CallToolAction(tool_name="add", arguments={"a": 1, "b": 2}))
        assert str(called.observation.result) == "3"


async def test_tools_are_called_in_production_mode_too(reference_python: str) -> None:
    with serving(reference_python, "tools", max_sessions=1, mode="production") as address:
        async with MCPToolClient(f"http://{address}") as client:
            assert await client.call_tool("add", a=1, b=2) == 3
            assert await client.has_tool("boom")
