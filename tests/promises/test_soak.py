"""Sessions for minutes on end, opened, stepped, cut off, killed and resumed: nothing is left."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from grpc.aio import AioRpcError

from openenv_grpc.client import EnvClient
from openenv_grpc.client.administration import administer
from openenv_grpc.errors import OpenEnvError, SessionClosedError, UnavailableError
from openenv_grpc.types import State
from tests.exactly_once.counting import Tally, Token
from tests.exactly_once.proxy import Proxy, proxied
from tests.served_process import ServedProcess, start_server

MINUTES = "SOAK_MINUTES"
"""Variable with the length of the test."""
SESSIONS = 200
WARM_UP_S = 60
WINDOW_S = 20
"""Enough for a client to come back. As long are records kept of sessions that have ended."""
SETTLE_S = 120
GRPC_POOL = "event_engine"
"""Name of the threads of gRPC's pool."""
ENVIRONMENTS = ("Witness", "IsolatedWitness")
SHARE_ISOLATED = 0.1  # since a process is started for each


class CountingClient(EnvClient[Token, Tally, State]):
    pass


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What a server's process has."""

    threads: int
    """Without those of gRPC's own pool, which it has more or fewer of by its load."""
    descriptors: int
    processes: int
    memory_kib: int


def usage(served: ServedProcess) -> Usage:
    process = Path(f"/proc/{served.process.pid}")
    status = dict(
        line.split(":", 1) for line in (process / "status").read_text(encoding="ascii").splitlines()
    )
    threads = list((process / "task").iterdir())
    children = [
        child
        for thread in threads
        for child in (thread / "children").read_text(encoding="ascii").split()
    ]
    return Usage(
        threads=sum(
            (thread / "comm").read_text(encoding="ascii").strip() != GRPC_POOL for thread in threads
        ),
        descriptors=len(list((process / "fd").iterdir())),
        processes=len(children),
        memory_kib=int(status["VmRSS"].split()[0]),
    )


class Crowd:
    """Clients that come and go."""

    def __init__(
        self, served: ServedProcess, proxies: dict[str, Proxy], source: random.Random, end: float
    ) -> None:
        self._admin_url = f"grpc://{served.address('grpc')}"
        self._proxies = proxies
        self._random = source
        self._end = end
        self.done: Counter[str] = Counter()

    async def run(self, count: int) -> None:
        """Has as many clients at once until the time is over."""
        async with asyncio.TaskGroup() as tasks:
            for number in range(count):
                tasks.create_task(self._live(number))
            tasks.create_task(self._cut_and_kill())

    async def _cut_and_kill(self) -> None:
        while time.monotonic() < self._end:
            await asyncio.sleep(self._random.uniform(0.5, 3))
            if self._random.random() < 0.5:
                self._random.choice(list(self._proxies.values())).cut()
                self.done["cuts"] += 1
            else:
                await self._kill_some()

    async def _kill_some(self) -> None:
        async with administer(self._admin_url, timeout_s=60) as administration:
            live = await administration.list_sessions()
            for session in self._random.sample(live, len(live) // 20):
                with contextlib.suppress(AioRpcError):  # it has ended by now
                    await administration.close_session(session.session_id)
                    self.done["killed"] += 1

    async def _live(self, number: int) -> None:
        while time.monotonic() < self._end:
            await self._session(number)

    async def _session(self, number: int) -> None:
        source = self._random
        door = source.choice(list(self._proxies))
        client = CountingClient(
            f"{door}://127.0.0.1:{self._proxies[door].port}",
            environment=ENVIRONMENTS[source.random() < SHARE_ISOLATED],
            resume_window_s=source.choice((0, 1, WINDOW_S)),
            headers={"x-link": str(number % 16)},
        )
        try:
            await client.connect()
        except (UnavailableError, SessionClosedError):  # cut or killed before it was there
            self.done["not opened"] += 1
            await client.close()
            return
        self.done["sessions"] += 1
        kept_by_window = client._resume_window_s == WINDOW_S
        try:
            first = (await client.reset()).observation
            for asked in range(1, source.randrange(2, 20)):
                token = f"{number} {asked}"
                tally = (await client.step(Token(token=token))).observation
                assert (tally.token, tally.steps, tally.instance) == (token, asked, first.instance)
                self.done["steps"] += 1
                await asyncio.sleep(source.uniform(0, 0.5))
        except OpenEnvError as error:
            was_killed = "by an operator" in error.message
            if not error.session_lost or (kept_by_window and not was_killed):
                raise
            self.done["sessions that were killed" if was_killed else "lost with their window"] += 1
        finally:
            await client.close()


async def settled(served: ServedProcess) -> Usage:
    """Waits until the server has no sessions, and what it has besides memory stays as it is."""
    await asyncio.sleep(WINDOW_S)
    same, last, left = 0, usage(served), []
    async with administer(f"grpc://{served.address('grpc')}", timeout_s=2 * SETTLE_S) as operator:
        try:
            async with asyncio.timeout(SETTLE_S):
                while same < 20:
                    left = await operator.list_sessions()
                    seen = usage(served)
                    steady = replace(seen, memory_kib=0) == replace(last, memory_kib=0)
                    same = same + 1 if steady and not left else 0
                    last = seen
                    await asyncio.sleep(0.25)
        except TimeoutError:
            pytest.fail(f"the server does not settle: {last}, sessions {left}")
    return last


@asynccontextmanager
async def doors(served: ServedProcess, source: random.Random) -> AsyncIterator[dict[str, Proxy]]:
    grpc_port, http_port = (
        int(served.address(door).rpartition(":")[2]) for door in ("grpc", "http")
    )
    async with proxied(grpc_port, source) as grpc, proxied(http_port, source) as ws:
        yield {"grpc": grpc, "ws": ws}


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.timeout(0)
async def test_nothing_is_left_of_sessions_opened_stepped_killed_and_resumed_at_random(
    tmp_path: Path,
) -> None:
    length_s = 60 * float(os.environ.get(MINUTES, "10"))
    seed = int(os.environ.get("OPENENV_GRPC_TEST_SEED") or random.SystemRandom().getrandbits(32))
    print(f"OPENENV_GRPC_TEST_SEED={seed}")
    source = random.Random(seed)
    targets = [f"tests.promises.environments:{name}" for name in ENVIRONMENTS]
    with start_server(tmp_path, *targets, "--max-sessions", "256") as served:
        async with doors(served, source) as proxies:
            await Crowd(served, proxies, source, time.monotonic() + WARM_UP_S).run(SESSIONS)
            before = await settled(served)
            crowd = Crowd(served, proxies, source, time.monotonic() + length_s)
            await crowd.run(SESSIONS)
        after = await settled(served)
        print(dict(crowd.done), before, after, sep="\n")
        assert after.threads <= before.threads
        assert after.descriptors <= before.descriptors
        assert after.processes <= before.processes
        assert after.memory_kib <= before.memory_kib * 1.1
        served.process.terminate()
        assert await asyncio.to_thread(served.process.wait, 60) == 0
    assert "Traceback" not in served.log.read_text()
