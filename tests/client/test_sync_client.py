from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from openenv_grpc.client import EnvClient, GenericEnvClient, MCPToolClient, SyncEnvClient
from openenv_grpc.errors import InvalidActionError, InvalidRequestError
from tests.client.conftest import serve_environments
from tests.client.environments import Gate, TurnAction, TurnObservation, TurnState


class TurnClient(EnvClient[TurnAction, TurnObservation, TurnState]):
    async def say_twice(self, text: str) -> int:
        await self.step(TurnAction(text=text))
        return (await self.step(TurnAction(text=text))).observation.turn


@contextmanager
def serving_elsewhere(path: Path, **settings: int) -> Iterator[dict[str, str]]:
    """Serves on the loop of another thread."""
    ready = threading.Event()
    urls: dict[str, str] = {}
    loop = asyncio.new_event_loop()
    ended = asyncio.Event()

    async def serve() -> None:
        async with serve_environments(path=path, **settings) as found:
            urls.update(found)
            ready.set()
            await ended.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(10)
        yield urls
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
        loop.close()


@pytest.fixture(params=["grpc", "ws"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with serving_elsewhere(tmp_path) as urls:
        yield urls[request.param]


def test_a_session_is_saved_and_forked_without_a_loop(url: str) -> None:
    with GenericEnvClient(url).sync() as client:
        client.reset()
        client.step({"text": "hi"})
        with GenericEnvClient(url, snapshot_id=client.snapshot()).sync() as later:
            assert later.step({}).observation["turn"] == 2
        first, second = client.group(2)
        first.step({})
        assert first.fork().step({}).observation["turn"] == 3
        assert second.step({}).observation["turn"] == 2
        assert client.step({}).observation["turn"] == 2


def test_an_episode_runs_without_a_loop(url: str) -> None:
    with GenericEnvClient(url).sync() as client:
        assert isinstance(client, SyncEnvClient)
        assert client.base_url == url
        assert client.reset(seed=1).observation["text"] == "seed=1 level=0"
        assert client.step({"text": "hi"}).observation["turn"] == 1
        assert client.state()["last_text"] == "hi"
        with pytest.raises(InvalidActionError):
            client.step({"nosuch": 1})


def test_what_an_agent_needs_is_told_without_a_loop(url: str) -> None:
    with GenericEnvClient(url).sync() as client:
        access = client.agent_access()
        assert access.session_id
        assert access.token == ""


def test_calls_at_module_level_need_no_block(url: str) -> None:
    client = GenericEnvClient(url).sync()
    client.connect()
    assert client.step({}).observation["turn"] == 1
    client.disconnect()
    assert client.step({}).observation["turn"] == 1
    client.close()


def test_many_threads_may_use_clients_of_one_connection(url: str) -> None:
    def episode(number: int) -> list[str]:
        with TurnClient(url).sync() as client:
            return [
                client.step(TurnAction(text=f"{number}.{turn}")).observation.text
                for turn in range(5)
            ]

    with ThreadPoolExecutor(8) as threads:
        episodes = list(threads.map(episode, range(16)))
    assert episodes == [[f"{number}.{turn}" for turn in range(5)] for number in range(16)]


async def test_blocking_calls_work_inside_a_running_loop(url: str) -> None:
    with GenericEnvClient(url).sync() as client:
        assert client.step({}).observation["turn"] == 1
        result = await asyncio.to_thread(client.step, {})
        assert result.observation["turn"] == 2


def test_methods_of_a_subclass_are_made_blocking(url: str) -> None:
    with TurnClient(url).sync() as client:
        assert client.say_twice("a") == 2
    with MCPToolClient(url, environment="ToolEnvironment").sync() as client:
        assert client.has_tool("add")
        assert client.call_tool("add", a=1, b=2) == 3
        with pytest.raises(AttributeError):
            client.nosuch()


def test_a_new_session_is_blocking_too(url: str) -> None:
    with GenericEnvClient(url).sync() as parent:
        child = parent.new_session()
        assert child.step({}).observation["turn"] == 1
        assert parent.state()["step_count"] == 0


def test_a_client_cannot_wait_for_itself(url: str) -> None:
    class Nested(GenericEnvClient):
        async def nest(self) -> None:
            self.sync().state()

    with Nested(url).sync() as client, pytest.raises(InvalidRequestError, match="thread"):
        client.nest()


def test_a_client_of_a_loop_cannot_become_blocking_while_it_is_open(tmp_path: Path) -> None:
    async def run() -> None:
        async with (
            serve_environments(path=tmp_path) as urls,
            GenericEnvClient(urls["ws"]) as client,
        ):
            with pytest.raises(InvalidRequestError, match="another event loop"):
                client.sync().state()

    asyncio.run(run())


def test_interrupting_a_wait_cancels_the_call(url: str, gate: Gate, tmp_path: Path) -> None:
    script = tmp_path / "interrupted.py"
    script.write_text(
        "import os, signal, sys, threading\n"
        "from openenv_grpc.client import GenericEnvClient\n"
        "with GenericEnvClient(sys.argv[1]).sync() as client:\n"
        "    client.reset()\n"
        "    def interrupt():\n"
        "        sys.stdin.readline()\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "    threading.Thread(target=interrupt, daemon=True).start()\n"
        "    try:\n"
        "        client.step({'op': 'wait', 'text': sys.argv[2]})\n"
        "    except KeyboardInterrupt:\n"
        "        print('interrupted', flush=True)\n"
        "        sys.stdin.readline()\n"
        "        print(client.step({'text': 'next'}).observation['text'])\n"
    )
    with subprocess.Popen(
        [sys.executable, "-W", "error", str(script), url, gate.name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert gate.entered.wait(10)
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "interrupted\n"
        gate.opened.set()
        output, errors = process.communicate("\n", timeout=10)
    assert (output, errors, process.returncode) == ("next\n", "", 0)


@pytest.mark.parametrize("door", ["grpc", "ws"])
def test_a_program_that_leaves_its_loop_with_open_clients_ends_quietly(
    tmp_path: Path, door: str
) -> None:
    script = (
        "import asyncio, sys\n"
        "from openenv_grpc.client import GenericEnvClient\n"
        "async def main():\n"
        "    client = GenericEnvClient(sys.argv[1])\n"
        "    print((await client.reset()).observation['turn'])\n"
        "asyncio.run(main())\n"
    )
    with serving_elsewhere(tmp_path) as urls:
        ended = subprocess.run(
            [sys.executable, "-W", "error", "-X", "dev", "-c", script, urls[door]],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    assert (ended.stdout, ended.returncode) == ("0\n", 0)
    # In development mode asyncio tells of slow turns of its loop, such as loading aiohttp.
    assert [line for line in ended.stderr.splitlines() if "Executing" not in line] == []


def test_a_process_that_forgets_to_close_ends_quietly_and_frees_its_slot(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from openenv_grpc.client import GenericEnvClient\n"
        "client = GenericEnvClient(sys.argv[1]).sync()\n"
        "print(client.reset().observation['turn'])\n"
    )
    with serving_elsewhere(tmp_path, max_sessions=1) as urls:
        for door in ("grpc", "ws", "grpc"):
            ended = subprocess.run(
                [sys.executable, "-W", "error", "-c", script, urls[door]],
                capture_output=True,
                text=True,
                timeout=30,
                check=False,
            )
            assert (ended.stdout, ended.stderr, ended.returncode) == ("0\n", "", 0)


@pytest.mark.parametrize("ending", ["return", "raise ValueError()", "raise KeyboardInterrupt()"])
def test_a_program_that_leaves_its_loop_with_open_clients_frees_their_slots(
    tmp_path: Path, ending: str
) -> None:
    script = (
        "import asyncio, sys\n"
        "from openenv_grpc.client import GenericEnvClient\n"
        "async def main():\n"
        "    client = GenericEnvClient(sys.argv[1])\n"
        "    print((await client.reset()).observation['turn'])\n"
        f"    {ending}\n"
        "asyncio.run(main())\n"
    )
    with serving_elsewhere(tmp_path, max_sessions=1) as urls:
        for door in ("grpc", "ws", "grpc"):
            ended = subprocess.run(
                [sys.executable, "-c", script, urls[door]],
                capture_output=True,
                text=True,
                timeout=30,
                check=False,
            )
            assert ended.stdout == "0\n", ended.stderr
            assert "destroyed" not in ended.stderr
