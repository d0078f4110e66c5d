"""Servers in this process, each on a loop and a thread of its own, for the snippets of pages."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import pytest

from openenv_grpc import Server


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Where a server listens."""

    grpc: str
    http: str


Serve = Callable[[str], Served]


@contextmanager
def served(target: str) -> Iterator[Served]:
    """Serves an environment while the block lasts."""
    listening: Future[tuple[Served, Callable[[], None]]] = Future()

    async def run() -> None:
        loop = asyncio.get_running_loop()
        async with Server(target, grpc_port=0, http_port=0) as server:
            assert server.grpc_address is not None
            assert server.http_address is not None
            where = Served(grpc=server.grpc_address, http=server.http_address)
            listening.set_result((where, lambda: loop.call_soon_threadsafe(server.stop)))
            await server.wait_stopped()

    def work() -> None:
        try:
            asyncio.run(run())
        except BaseException as error:
            if listening.done():
                raise
            listening.set_exception(error)

    thread = threading.Thread(target=work, name=f"serves {target}")
    thread.start()
    try:
        where, stop = listening.result(timeout=20)
        try:
            yield where
        finally:
            stop()
    finally:
        thread.join(timeout=20)


@pytest.fixture(scope="package")
def echo() -> Iterator[Served]:
    with served("echo_env") as where:
        yield where


@pytest.fixture
def serve(echo: Served) -> Iterator[Serve]:
    """Serves what a page asks for, each target once."""
    with ExitStack() as stack:
        listening = {"echo_env": echo}

        def find(target: str) -> Served:
            if target not in listening:
                listening[target] = stack.enter_context(served(target))
            return listening[target]

        yield find
