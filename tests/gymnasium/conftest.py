"""Servers on the loop of another thread, since Gymnasium's calls block."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from openenv_grpc import Server
from openenv_grpc.definition import EnvironmentDefinition
from openenv_grpc.gymnasium import gymnasium_environment

START_S = 30


@contextmanager
def served(*definitions: EnvironmentDefinition) -> Iterator[dict[str, str]]:
    """Serves environments, and gives a URL for each door."""
    loop = asyncio.new_event_loop()
    ready = threading.Event()
    ended = asyncio.Event()
    urls: dict[str, str] = {}

    async def serve() -> None:
        async with Server(*definitions, grpc_port=0, http_port=0) as server:
            urls["grpc"] = f"grpc://{server.grpc_address}"
            urls["http"] = f"http://{server.http_address}"
            ready.set()
            await ended.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    try:
        assert ready.wait(START_S)
        yield urls
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
        loop.close()


@pytest.fixture(scope="module")
def cart_pole() -> Iterator[dict[str, str]]:
    """A server of CartPole-v1."""
    with served(gymnasium_environment("CartPole-v1")) as urls:
        yield urls
