"""The same client with methods that block, from any thread and whether or not a loop runs there."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import inspect
import os
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

from openenv_grpc.client.agent_access import AgentAccess
from openenv_grpc.client.apart import new_event_loop
from openenv_grpc.client.blocks import Block
from openenv_grpc.client.events import Event
from openenv_grpc.client.outcomes import Evaluation
from openenv_grpc.errors import InvalidRequestError, OpenEnvError
from openenv_grpc.types import JsonValue, StepResult

if TYPE_CHECKING:
    from openenv_grpc.client.env_client import EnvClient

ActT = TypeVar("ActT")
ObsT = TypeVar("ObsT")
StateT = TypeVar("StateT")
ResultT = TypeVar("ResultT")

_EXIT_TIMEOUT_S = 5.0
_CLOSE_TIMEOUT_S = 4.0


class _Closing(Protocol):
    async def close(self) -> None: ...


class _Blocking(Protocol):
    """A blocking client, as the background sees it."""

    @property
    def async_client(self) -> _Closing: ...


class _BackgroundLoop:
    """One event loop on one daemon thread, for all blocking clients of the process."""

    def __init__(self) -> None:
        self._starting = threading.Lock()  # one thread, however many callers are the first
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._abandoned: list[asyncio.AbstractEventLoop] = []
        self.clients: weakref.WeakSet[_Blocking] = weakref.WeakSet()

    def run(self, call: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Runs a coroutine and waits for it. Interrupting the wait cancels it."""
        if threading.current_thread() is self._thread:
            call.close()
            raise InvalidRequestError(
                "a blocking client was called from the thread that serves blocking clients; await "
                "the async client there"
            )
        future = asyncio.run_coroutine_threadsafe(call, self._started())
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise
        except BaseException:
            future.cancel()
            raise

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                self._loop = new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="openenv-grpc-sync", daemon=True
                )
                self._thread.start()
                atexit.register(self._stop)
            return self._loop

    def begin_anew(self) -> None:
        """Makes the loop of a forked child its own: it has the parent's, and no thread to run it.

        The sessions of clients that were used before stay with the parent.
        """
        atexit.unregister(self._stop)
        if self._loop is not None:
            self._abandoned.append(self._loop)  # what its sockets and timers refer to stays
        self._starting = threading.Lock()  # another thread may have held it
        self._loop = self._thread = None
        self.clients = weakref.WeakSet()

    def _stop(self) -> None:
        """Closes what is open, so that the server frees its slots at once."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        with contextlib.suppress(TimeoutError, OpenEnvError):
            asyncio.run_coroutine_threadsafe(self._close_clients(), loop).result(_EXIT_TIMEOUT_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_EXIT_TIMEOUT_S)

    async def _close_clients(self) -> None:
        closing = (client.async_client.close() for client in list(self.clients))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await asyncio.gather(*closing, return_exceptions=True)
        left = asyncio.all_tasks() - {asyncio.current_task()}  # of clients that nobody holds
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


background = _BackgroundLoop()
"""Where all blocking clients of the process run."""

if sys.platform != "win32":
    os.register_at_fork(after_in_child=background.begin_anew)


class SyncEnvClient(Block, Generic[ActT, ObsT, StateT]):
    """A client whose methods block. See `EnvClient` for what they do and raise.

    It works from every thread, also from one whose event loop runs: that loop stands still while
    the call lasts, but nothing hangs. Ctrl-C cancels the call. Attributes that are not listed here
    are those of the async client, its coroutine methods made blocking.
    """

    def __init__(self, async_client: EnvClient[ActT, ObsT, StateT]) -> None:
        """Wraps a client that no event loop has used yet."""
        self._client = async_client
        background.clients.add(self)

    @property
    def async_client(self) -> EnvClient[ActT, ObsT, StateT]:
        """The client that does the work."""
        return self._client

    @property
    def base_url(self) -> str | None:
        """The server's URL."""
        return self._client.base_url

    def connect(self) -> Self:
        """Opens the session."""
        background.run(self._client.connect())
        return self

    def reset(self, **kwargs: JsonValue) -> StepResult[ObsT]:
        """Starts an episode."""
        return background.run(self._client.reset(**kwargs))

    def step(self, action: ActT, **kwargs: JsonValue) -> StepResult[ObsT]:
        """Applies an action."""
        return background.run(self._client.step(action, **kwargs))

    def state(self) -> StateT:
        """Reads the environment's state."""
        return background.run(self._client.state())

    def evaluate(self) -> Evaluation:
        """Asks for the verdict without a step."""
        return background.run(self._client.evaluate())

    def agent_access(self) -> AgentAccess:
        """Tells what the session's agent needs."""
        return background.run(self._client.agent_access())

    def events(self) -> Iterator[Event]:
        """Iterates over what happens in the session; waits for each. See `EnvClient.events`."""
        events = self._client.events()
        while (event := background.run(_next(events))) is not None:
            yield event

    def new_session(self) -> SyncEnvClient[ActT, ObsT, StateT]:
        """Returns a connected client of the same kind, closed with this one."""
        return SyncEnvClient(background.run(self._client.new_session()))

    def snapshot(self) -> str:
        """Saves the session as it is now; returns the snapshot's id."""
        return background.run(self._client.snapshot())

    def fork(self) -> SyncEnvClient[ActT, ObsT, StateT]:
        """Returns a connected client that goes on from here, closed with this one."""
        return SyncEnvClient(background.run(self._client.fork()))

    def group(self, count: int) -> list[SyncEnvClient[ActT, ObsT, StateT]]:
        """Returns as many connected clients that go on from here, closed with this one."""
        return [SyncEnvClient(child) for child in background.run(self._client.group(count))]

    def disconnect(self) -> None:
        """Ends the session."""
        background.run(self._client.disconnect())

    def close(self) -> None:
        """Ends everything."""
        background.run(self._client.close())

    def __getattr__(self, name: str) -> Any:
        """Delegates what a subclass of the client has beyond the usual."""
        if name.startswith("_"):
            raise AttributeError(name)
        attribute = getattr(self._client, name)
        return _blocking(attribute) if inspect.iscoroutinefunction(attribute) else attribute


async def _next(events: AsyncIterator[Event]) -> Event | None:
    return await anext(events, None)


def _blocking(method: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        return background.run(method(*args, **kwargs))

    return call
