"""SIGTERM while episodes run: they come to their end, others are refused, and the server goes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from openenv_grpc.client import GenericEnvClient
from openenv_grpc.errors import DrainingError
from tests.served_process import start_server

EPISODES = 32
LIMIT_S = 60
LENGTH = 8


async def run_episode(url: str, running: asyncio.Event, terminated: asyncio.Event) -> int:
    """Steps to the end of an episode, on whose way the server is told to go."""
    async with GenericEnvClient(url) as client:
        await client.reset()
        await client.step({})
        running.set()
        await terminated.wait()
        while not (result := await client.step({})).done:
            pass
        steps: int = result.observation["steps"]
        return steps


@pytest.mark.parametrize("door", ["grpc", "ws"])
async def test_no_episode_is_broken_and_no_new_one_begun(tmp_path: Path, door: str) -> None:
    target = "tests.promises.environments:Episodic"
    with start_server(tmp_path, target, f"--drain-timeout={LIMIT_S}") as served:
        address = served.address("grpc" if door == "grpc" else "http").removeprefix("http://")
        url = f"{door}://{address}"
        running = [asyncio.Event() for _ in range(EPISODES)]
        terminated = asyncio.Event()
        async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as tasks:
            episodes = [tasks.create_task(run_episode(url, each, terminated)) for each in running]
            for each in running:
                await each.wait()
            served.process.terminate()
            late = GenericEnvClient(url)
            with pytest.raises(DrainingError):
                while True:  # until the signal has arrived
                    await late.reset()
            with pytest.raises(DrainingError):
                await GenericEnvClient(url).connect()
            await late.close()
            terminated.set()
        assert [episode.result() for episode in episodes] == [LENGTH] * EPISODES
        status = await asyncio.to_thread(served.process.wait, LIMIT_S)
    assert status == 0
    assert "drain cut short" not in served.log.read_text()
