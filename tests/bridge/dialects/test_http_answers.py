"""Answers over HTTP, and how much of them waits for clients that do not read."""

from __future__ import annotations

import asyncio

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer

from openenv_bridge.mcp.exchange import Answered, Told
from openenv_bridge.mcp.http_answers import HttpAnswer

NOTICE = b"x" * 2**16
MANY = 2_000
"""More of them than the buffers of a connection take."""


async def test_what_a_client_does_not_read_is_not_told_until_it_does() -> None:
    told_of: list[int] = []

    async def told() -> Told:
        for number in range(MANY):
            told_of.append(number)
            yield NOTICE
        yield Answered(b"end")

    async def answer(request: web.Request) -> web.StreamResponse:
        return await HttpAnswer(request, opens=True).send(told())

    async with (
        asyncio.timeout(60),
        serving(answer) as server,
        aiohttp.ClientSession() as http,
        http.get(server.make_url("/")) as response,
    ):
        before = -1
        while len(told_of) != before:  # until the buffers are full
            before = len(told_of)
            for _ in range(1_000):
                await asyncio.sleep(0)
        assert before < MANY
        content = await response.read()
    assert len(told_of) == MANY
    assert content.count(NOTICE) == MANY
    assert content.endswith(b"data: end\r\n\r\n")


async def test_what_outlives_its_client_does_not_wait_for_it_to_read() -> None:
    ended, outlives = asyncio.Event(), set()

    async def told() -> Told:
        for _ in range(MANY):
            yield NOTICE
        ended.set()
        yield Answered(b"end")

    async def answer(request: web.Request) -> web.StreamResponse:
        return await HttpAnswer(request, outlives=outlives.add).send(told())

    async with serving(answer) as server, aiohttp.ClientSession() as http, asyncio.timeout(60):
        async with http.get(server.make_url("/"), headers={"Accept": "text/event-stream"}):
            assert not ended.is_set()
        await ended.wait()
        await asyncio.gather(*outlives)


def serving(handler: object) -> TestServer:
    app = web.Application()
    app.router.add_get("/", handler)  # type: ignore[arg-type]
    return TestServer(app, handler_cancellation=True)
