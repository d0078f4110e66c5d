"""How long one stream keeps the event loop from others."""

from __future__ import annotations

import time

from openenv_grpc.engine import EnvironmentDefinition, SessionManager
from openenv_grpc.v1 import session_pb2
from tests.environments import Count, Countdown, Counted
from tests.stream.pipe import opening, piped, resetting, stepping

SESSIONS = 40


class Dawdling(Countdown):
    """Computes for milliseconds on the event loop, which it should not."""

    ISOLATION = "inline"

    def step(self, action: Count, timeout_s: float | None = None) -> Counted:
        until = time.perf_counter() + 0.002
        while time.perf_counter() < until:
            pass
        return super().step(action)


async def test_a_message_full_of_long_inline_steps_lets_other_streams_have_their_turns() -> None:
    definition = EnvironmentDefinition(
        factory=Dawdling, action_type=Count, observation_type=Counted, max_sessions=SESSIONS + 1
    )
    order: list[str] = []
    async with (
        SessionManager([definition]) as manager,
        piped(manager) as many,
        piped(manager) as one,
    ):
        numbers = range(1, SESSIONS + 1)
        many.send(*(opening(number) for number in numbers))
        many.send(*(resetting(number) for number in numbers))
        for _ in range(2 * SESSIONS):
            await many.outcome()
        await one.ask(opening())
        await one.ask(resetting())

        one_write, many_write = one.write, many.write

        async def note_one(data: bytes) -> None:
            order.append("one")
            await one_write(data)

        async def note_many(data: bytes) -> None:
            response = session_pb2.ConnectResponse.FromString(data)
            order.extend(["many"] * len(response.outcomes))
            await many_write(data)

        one.write, many.write = note_one, note_many  # type: ignore[method-assign]
        many.send(*(stepping(number) for number in numbers))
        one.send(stepping())
        await one.outcome()
        for _ in numbers:
            await many.outcome()
    assert order.count("many") == SESSIONS
    assert order.index("one") < SESSIONS / 2
