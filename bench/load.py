"""A load on one server by one client process. Runs with our client, or with the reference's own.

    python load.py ours|reference step|vector|idle|open URL --pid SERVER [--sessions N] ...

Every session sends its next step as soon as it has the last answer; with `vector` all of them step
together. Prints one JSON object. Imports nothing of this folder, since it runs in the reference's
environment too.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any

ACTIONS: dict[str, dict[str, Any]] = {"tiny": {"message": "m" * 50}, "array": {"values": [0.5] * 4}}
WARM_UP_S = 0.5
AT_ONCE = 32
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    """Returns the processor time that a process has used, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def resident_kib(pid: int) -> int:
    """Returns a process's resident memory in KiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise LookupError("no VmRSS")


def quantile(ordered: list[float], part: float) -> float:
    """Returns a quantile of ordered values."""
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


async def connected(client_type: Any, url: str) -> Any:
    """Opens a client and resets its session."""
    client = client_type(base_url=url)
    await client.connect()
    await client.reset()
    return client


async def connect_all(client_type: Any, url: str, sessions: int) -> list[Any]:
    """Opens many clients, some at a time."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one() -> Any:
        async with gate:
            return await connected(client_type, url)

    return await asyncio.gather(*(one() for _ in range(sessions)))


class Stopwatch:
    """Time and processor time of both sides, from its making on."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._server, self._client = cpu_s(pid), cpu_s(os.getpid())
        self.start = time.perf_counter()

    def measured(self, steps: int) -> dict[str, float]:
        """Returns what so many steps took."""
        elapsed = time.perf_counter() - self.start
        return {
            "steps_per_s": steps / elapsed,
            "server_us_per_step": (cpu_s(self._pid) - self._server) / steps * 1e6,
            "client_us_per_step": (cpu_s(os.getpid()) - self._client) / steps * 1e6,
        }


async def vector(given: argparse.Namespace, client_type: Any) -> Any:
    """Measures steps per second of all sessions in lockstep."""
    import numpy

    from openenv_grpc import VectorEnvClient

    count = given.sessions
    actions: dict[str, Any] = {
        name: numpy.tile(numpy.float32(value), (count, 1)) if name == "values" else [value] * count
        for name, value in ACTIONS[given.action].items()
    }
    async with VectorEnvClient(given.url, count) as envs:
        await envs.reset()
        end = time.perf_counter() + WARM_UP_S
        while time.perf_counter() < end:
            await envs.step(actions)
        watch, steps = Stopwatch(given.pid), 0
        while time.perf_counter() < watch.start + given.seconds:
            await envs.step(actions)
            steps += count
        return watch.measured(steps)


async def step(given: argparse.Namespace, client_type: Any) -> Any:
    """Measures steps per second, their latency, and both sides' processor time."""
    action = ACTIONS[given.action]
    clients = await connect_all(client_type, given.url, given.sessions)
    latencies: list[float] = []
    stop = False

    async def drive(client: Any) -> None:
        while not stop:
            start = time.perf_counter()
            await client.step(action)
            latencies.append(time.perf_counter() - start)

    tasks = [asyncio.create_task(drive(client)) for client in clients]
    await asyncio.sleep(WARM_UP_S)
    latencies.clear()
    watch = Stopwatch(given.pid)
    await asyncio.sleep(given.seconds)
    found = watch.measured(len(latencies))
    ordered = sorted(latencies)
    found["p50_us"] = quantile(ordered, 0.5) * 1e6
    found["p99_us"] = quantile(ordered, 0.99) * 1e6
    stop = True
    await asyncio.gather(*tasks)
    await asyncio.gather(*(client.close() for client in clients))
    return found


async def idle(given: argparse.Namespace, client_type: Any) -> Any:
    """Measures the server's memory for each open session."""
    url, pid, sessions = given.url, given.pid, given.sessions
    warm = await connected(client_type, url)  # what the first session loads is not the others'
    before = resident_kib(pid)
    clients = await connect_all(client_type, url, sessions)
    await asyncio.sleep(1)
    after = resident_kib(pid)
    await asyncio.gather(*(client.close() for client in (warm, *clients)))
    return {"kib_per_session": (after - before) / sessions, "kib_before": before}


async def opening(given: argparse.Namespace, client_type: Any) -> Any:
    """Measures how many sessions a second are opened, reset and closed."""
    url, pid, sessions = given.url, given.pid, given.sessions
    gate = asyncio.Semaphore(AT_ONCE)

    async def one() -> None:
        async with gate:
            client = await connected(client_type, url)
            await client.close()

    server, start = cpu_s(pid), time.perf_counter()
    await asyncio.gather(*(one() for _ in range(sessions)))
    elapsed = time.perf_counter() - start
    return {
        "opens_per_s": sessions / elapsed,
        "server_us_per_open": (cpu_s(pid) - server) / sessions * 1e6,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("client", choices=["ours", "reference"])
    parser.add_argument("mode", choices=["step", "vector", "idle", "open"])
    parser.add_argument("url")
    parser.add_argument("--pid", type=int, required=True)
    parser.add_argument("--sessions", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--action", choices=list(ACTIONS), default="tiny")
    given = parser.parse_args()
    if given.client == "ours":
        import uvloop

        from openenv_grpc import GenericEnvClient

        run = uvloop.run
    else:
        from openenv.core.generic_client import GenericEnvClient

        run = asyncio.run
    mode = {"step": step, "vector": vector, "idle": idle, "open": opening}[given.mode]
    found = run(mode(given, GenericEnvClient))
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
