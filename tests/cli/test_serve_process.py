"""`serve --isolation process`: environments in processes, behind real doors."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import grpc
import pytest

from openenv_grpc import GenericEnvClient
from openenv_grpc.cli.logs import JsonFormatter
from openenv_grpc.cli.sizes import parse_size
from openenv_grpc.errors import EnvironmentFailedError, OpenEnvError
from openenv_grpc.v1 import catalog_pb2, catalog_pb2_grpc
from tests.cli.conftest import ServeProcess
from tests.engine.process_environments import gone, gone_by_then, lives
from tests.served_process import CHECKOUT, ServedProcess

ISOLATED = "tests.engine.process_environments:Isolated"

PROGRAM = """
import asyncio, ctypes, os, signal, subprocess, sys
from openenv_grpc import Action, Environment, Observation, State
from openenv_grpc.engine import EngineSettings, EnvironmentDefinition, SessionManager
from openenv_grpc.operations import (Kind, Operation)
from openenv_grpc.sessions import ask
from tests.engine.talking import CODEC

class Pid(Observation):
    pid: int
    started: int

class Here(Environment[Action, Pid, State]):
    def reset(self, seed=None, episode_id=None):
        started = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
        return Pid(pid=os.getpid(), started=started.pid)

    def step(self, action, timeout_s=None):
        return self.reset()

async def main():
    definition = EnvironmentDefinition(
        factory=Here, action_type=Action, observation_type=Pid, isolation="process"
    )
    settings = EngineSettings(process_pool_size=0)
    async with SessionManager([definition], settings) as manager, manager.attach(peer="") as held:
        reply = await ask(held.open(""), Operation(kind=Kind.RESET, codec=CODEC))
        forked = FORK()
        if not forked:
            signal.pause()  # it has all that the server has open
        print(reply.content.decode(), forked, sep="\\n", flush=True)
        await asyncio.Event().wait()

if __name__ == "__main__":
    asyncio.run(main())
"""

FOLDER = {
    "openenv.yaml": "name: island\napp: server.app:app\n",
    "__init__.py": "",
    "server/__init__.py": "",
    "server/app.py": """
from openenv_grpc import Observation, create_app
from island.server.environment import Island, Move

app = create_app(Island, Move, Observation)
""",
    "server/environment.py": """
import os
from pathlib import Path
from openenv_grpc import Action, Environment, Observation, State
from ..palms import PALMS

class Move(Action):
    pass

class Island(Environment[Move, Observation, State]):
    def reset(self, seed=None, episode_id=None):
        facts = {"pid": os.getpid(), "palms": PALMS, "cwd": str(Path.cwd())}
        return Observation(metadata=facts)

    def step(self, action, timeout_s=None):
        return self.reset()
""",
    "palms.py": "PALMS = 3\n",
}


async def entered(served: ServedProcess) -> None:
    """Waits until an environment has logged that it is where the test wants it."""
    async with asyncio.timeout(20):
        while "entered" not in log_of(served):
            await asyncio.sleep(0.01)


def log_of(served: ServedProcess) -> str:
    return served.log.read_text()


async def test_a_killed_server_leaves_no_process_whatever_those_do(
    serve_process: ServeProcess,
) -> None:
    with serve_process(ISOLATED, "--isolation", "process") as served:
        url = f"grpc://{served.address('grpc')}"
        idle, frozen = (GenericEnvClient(base_url=url, resume_window_s=None) for _ in range(2))
        pids = [(await client.reset()).observation["pid"] for client in (idle, frozen)]
        pids.append((await idle.step({"text": "start"})).observation["pid"])
        waiting = asyncio.ensure_future(frozen.step({"text": "freeze"}))
        await entered(served)
        pids += children_of(served.process.pid)  # with those that wait for sessions
        assert len(set(pids)) >= 4

        served.process.kill()
        await gone(*pids)

        with pytest.raises(OpenEnvError):
            await waiting
        await idle.close()
        await frozen.close()


async def test_a_crash_over_grpc_is_a_typed_error_and_the_next_reset_opens_anew(
    serve_process: ServeProcess,
) -> None:
    options = ("--isolation", "process", "--worker-memory", "4G")
    with serve_process(ISOLATED, *options, ports=("--grpc-port", "0", "--no-http")) as served:
        async with GenericEnvClient(base_url=f"grpc://{served.address('grpc')}") as client:
            first = (await client.reset()).observation["pid"]
            with pytest.raises(EnvironmentFailedError, match="MemoryError"):
                await client.step({"text": "grab"})
            with pytest.raises(OpenEnvError) as caught:
                await client.step({"text": "fault"})
            assert caught.value.reason.name == "ENVIRONMENT_CRASHED"
            assert caught.value.session_lost
            second = (await client.reset()).observation["pid"]
            assert first != second
        async with grpc.aio.insecure_channel(served.address("grpc")) as channel:
            catalog: Any = catalog_pb2_grpc.CatalogServiceStub(channel)
            described = await catalog.GetEnvironment(catalog_pb2.GetEnvironmentRequest())
        assert described.environment.capabilities.isolation == "process"
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(timeout=20) == 0
        assert not lives(second)
    assert "Segmentation fault" in log_of(served)


async def test_a_folder_that_is_not_searched_is_imported_in_the_process_too(
    serve_process: ServeProcess, tmp_path: Path
) -> None:
    for name, content in FOLDER.items():
        path = tmp_path / "islands" / "island" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    folder = str(tmp_path / "islands" / "island")
    with serve_process(folder, "--isolation", "process", cwd=tmp_path) as served:
        async with GenericEnvClient(base_url=f"http://{served.address('http')}") as client:
            facts = (await client.reset()).observation["metadata"]
        assert (facts["palms"], facts["cwd"]) == (3, str(tmp_path))
        assert facts["pid"] != served.process.pid


@pytest.mark.parametrize("fork", ["os.fork", "ctypes.CDLL(None).fork"])
def test_a_class_of_the_program_itself_runs_in_a_process_which_ends_with_it(
    tmp_path: Path, fork: str
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.replace("FORK", fork))
    path = os.pathsep.join([str(CHECKOUT), *sys.path])
    with subprocess.Popen(
        [sys.executable, program],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        reply, forked = process.stdout.readline(), int(process.stdout.readline())
        worker = children_of(process.pid)
        worker.remove(forked)
        process.kill()
        seen = json.loads(reply)
        assert seen["pid"] == worker[0]
        # Though the forked process has what the server had open.
        assert gone_by_then(*worker, seen["started"])
        assert lives(forked)
        os.kill(forked, signal.SIGKILL)


def test_a_traceback_from_a_process_is_in_the_json_log() -> None:
    record = logging.makeLogRecord({"msg": "failed", "exc_text": "Traceback ..."})
    assert json.loads(JsonFormatter().format(record))["exception"] == "Traceback ..."


@pytest.mark.parametrize(
    ("text", "size"),
    [("1024", 1024), ("512M", 512 * 2**20), ("2g", 2 * 2**30), ("1 GiB", 2**30), ("3KB", 3072)],
)
def test_sizes_are_read_as_people_write_them(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "0", "G", "1.5G", "-1M", "many"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(Exception, match="is no size"):
        parse_size(text)


def children_of(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for path in listed for child in path.read_text().split()]
