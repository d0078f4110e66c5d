"""A tour on stubs of betterproto2: two sessions on one stream, an error, a batch, unary calls."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator

import betterproto2
from grpclib.client import Channel
from grpclib.exceptions import GRPCError
from stubs.openenv_grpc.v1 import (
    ClientHello,
    Close,
    CloseRequest,
    ConnectRequest,
    ConnectResponse,
    Effect,
    EpisodeServiceStub,
    GetState,
    Open,
    OpenRequest,
    Operation,
    Outcome,
    Payload,
    Reason,
    ResetEpisode,
    ResetRequest,
    SessionServiceStub,
    Step,
    StepRequest,
)


class Stream:
    """A stream, used by one caller at a time."""

    def __init__(self, sessions: SessionServiceStub) -> None:
        self._requests: asyncio.Queue[ConnectRequest | None] = asyncio.Queue()
        self._responses = sessions.connect(self._sent())

    async def _sent(self) -> AsyncIterator[ConnectRequest]:
        while (request := await self._requests.get()) is not None:
            yield request

    async def exchange(self, request: ConnectRequest) -> ConnectResponse:
        self._requests.put_nowait(request)
        return await anext(self._responses)

    async def one(self, operation: Operation) -> Outcome:
        """Sends one operation and waits for its outcome."""
        [outcome] = await self.perform(operation)
        return outcome

    async def perform(self, *operations: Operation) -> list[Outcome]:
        """Sends operations in one message and returns their outcomes in the same order.

        They may come in several messages, and those of different sessions in any order.
        """
        received: dict[tuple[int, int], Outcome] = {}
        response = await self.exchange(ConnectRequest(operations=list(operations)))
        while True:
            received |= {(each.session, each.request_id): each for each in response.outcomes}
            if len(received) >= len(operations):
                return [received[each.session, each.request_id] for each in operations]
            response = await anext(self._responses)

    async def end(self) -> None:
        """Ends the stream, which closes its sessions, and sees that the server ends it too."""
        self._requests.put_nowait(None)
        async for _ in self._responses:
            raise RuntimeError("the stream did not end")


def payload(value: object) -> Payload:
    return Payload(json=json.dumps(value))


def step(session: int, request_id: int, action: object) -> Operation:
    return Operation(session=session, request_id=request_id, step=Step(action=payload(action)))


async def over_stream(sessions: SessionServiceStub) -> None:
    stream = Stream(sessions)
    hello = ClientHello(name="tour", max_receive_size_bytes=4 << 20)
    server = (await stream.exchange(ConnectRequest(client=hello))).server
    print("server:", server.name, *server.environments)

    # Each operation is numbered within its session, so that it could be sent again.
    await stream.one(Operation(session=1, request_id=1, open=Open()))
    reset = Operation(session=1, request_id=2, reset_episode=ResetEpisode(seed=7))
    start = (await stream.one(reset)).reset_episode
    print("reset:", start.observation.json)
    result = (await stream.one(step(1, 3, {"message": "hi"}))).step
    print("step:", result.observation.json, result.reward)
    state = (await stream.one(Operation(session=1, request_id=4, get_state=GetState()))).get_state
    print("state: step count", state.step_count)

    # A refused action is an outcome like any other. The session lives.
    refusal = (await stream.one(step(1, 5, {"nope": 1}))).error
    reason, effect = Reason(refusal.reason), Effect(refusal.effect)
    print("refused:", reason.name, effect.name, refusal.session_lost)

    # A message takes any number of operations, of any sessions.
    outcomes = await stream.perform(
        step(1, 6, {"message": "one"}),
        step(1, 7, {"message": "two"}),
        Operation(session=2, request_id=1, open=Open()),
        Operation(session=2, request_id=2, reset_episode=ResetEpisode(seed=7)),
        step(2, 3, {"message": "three"}),
    )
    for outcome in outcomes:
        kind, value = betterproto2.which_one_of(outcome, "kind")
        if kind == "step":
            print("batch:", outcome.session, outcome.request_id, value.observation.json)

    closed = (await stream.one(Operation(session=1, request_id=8, close=Close()))).close
    print("closed: steps", closed.step_count)
    await stream.end()  # which closes session 2


async def over_unary_calls(episodes: EpisodeServiceStub) -> None:
    session_id = (await episodes.open(OpenRequest())).session_id
    await episodes.reset(ResetRequest(session_id=session_id))
    try:
        await episodes.step(StepRequest(session_id=session_id, action=payload({"nope": 1})))
    except GRPCError as error:
        print("unary refused:", error.status.name)
    else:
        raise RuntimeError("an invalid action was taken")
    await episodes.close(CloseRequest(session_id=session_id))


async def main(address: str) -> None:
    host, _, port = address.rpartition(":")
    async with Channel(host, int(port)) as channel, asyncio.timeout(30):
        await over_stream(SessionServiceStub(channel))
        await over_unary_calls(EpisodeServiceStub(channel))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
