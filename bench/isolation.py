"""What a process for each session costs and gives, beside a thread for each.

Run it as `python bench/isolation.py`. It drives the engine with the codec of gRPC, without a
network, and prints the medians of interleaved rounds.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import Any, ClassVar

import numpy as np
import uvloop
from pydantic import ConfigDict

from openenv_grpc import Action, Environment, Observation, State
from openenv_grpc.engine import EngineSettings, EnvironmentDefinition, SessionManager
from openenv_grpc.operations import Kind, Operation
from openenv_grpc.sessions import SessionPort, ask
from openenv_grpc.v1 import session_pb2
from openenv_grpc.wire.operations import ConnectCodec

ROUNDS = 5
ROUND_S = 1.5
CODEC = ConnectCodec()


class Said(Action):
    text: str = ""


class Seen(Observation):
    model_config = ConfigDict(arbitrary_types_allowed=True)

    text: str = ""
    frame: np.ndarray[Any, Any] | None = None


class Tiny(Environment[Said, Seen, State]):
    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = True

    def reset(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> Seen:
        return Seen()

    def step(self, action: Said, timeout_s: float | None = None, **_: Any) -> Seen:
        return Seen(text=action.text, reward=1.0)


class Busy(Tiny):
    """Computes for 5 ms of its own time."""

    def step(self, action: Said, timeout_s: float | None = None, **_: Any) -> Seen:
        end = time.thread_time() + 0.005
        while time.thread_time() < end:
            sum(range(100))
        return Seen(text=action.text)


class Frames(Tiny):
    """Shows 1 MiB."""

    def step(self, action: Said, timeout_s: float | None = None, **_: Any) -> Seen:
        return Seen(frame=np.full(2**20, 7, np.uint8))


def step() -> Operation:
    message = session_pb2.Operation()
    message.step.action.json = '{"text":"' + "x" * 50 + '"}'
    return Operation(kind=Kind.STEP, codec=CODEC, payload=message.step)


async def drive(session: SessionPort, end: float, times_s: list[float]) -> None:
    while (start := time.perf_counter()) < end:
        reply = await ask(session, step())
        assert reply.error is None, reply.error
        times_s.append(time.perf_counter() - start)


async def measure(factory: type[Tiny], isolation: str, sessions: int) -> tuple[float, float]:
    """Returns steps a second and the median time of a step in microseconds."""
    definition = EnvironmentDefinition(
        factory=factory, action_type=Said, observation_type=Seen, isolation=isolation
    )
    settings = EngineSettings(process_pool_size=0)
    async with (
        SessionManager([definition], settings) as manager,
        manager.attach(peer="bench") as attachment,
    ):
        ports = [attachment.open("") for _ in range(sessions)]
        await asyncio.gather(*(ask(port, step()) for port in ports))
        times_s: list[float] = []
        start = time.perf_counter()
        await asyncio.gather(*(drive(port, start + ROUND_S, times_s) for port in ports))
        took_s = time.perf_counter() - start
    return len(times_s) / took_s, statistics.median(times_s) * 1e6


def main() -> None:
    print(f"{'environment':12} {'sessions':>8} {'isolation':>10} {'steps/s':>9} {'p50 us':>8}")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        for factory, sessions in ((Busy, 4), (Tiny, 1), (Tiny, 16), (Frames, 1)):
            rounds: dict[str, list[tuple[float, float]]] = {"thread": [], "process": []}
            for _ in range(ROUNDS):
                for isolation, measured in rounds.items():
                    measured.append(runner.run(measure(factory, isolation, sessions)))
            for isolation, measured in rounds.items():
                rate, p50_us = (statistics.median(column) for column in zip(*measured, strict=True))
                print(
                    f"{factory.__name__:12} {sessions:8} {isolation:>10} {rate:9.0f} {p50_us:8.0f}"
                )


if __name__ == "__main__":
    main()
