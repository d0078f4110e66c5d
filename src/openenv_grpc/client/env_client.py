"""The client of an environment: the reference's calls, over whatever its URL asks for."""

from __future__ import annotations

import asyncio
import copy
import os
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Self

from openenv_grpc.client import arguments, providers, spreading
from openenv_grpc.client.agent_access import AgentAccess
from openenv_grpc.client.blocks import AsyncBlock
from openenv_grpc.client.connecting import connect_all
from openenv_grpc.client.connections import Wanted
from openenv_grpc.client.credentials import FilePath
from openenv_grpc.client.events import Audience, Event, EventLog, Progress
from openenv_grpc.client.outcomes import Evaluation
from openenv_grpc.client.providers import Provider
from openenv_grpc.client.remote_session import RemoteSession, gone
from openenv_grpc.client.sync_client import SyncEnvClient
from openenv_grpc.client.traced_session import traced
from openenv_grpc.client.typed_client import ActT, ObsT, StateT, TypedClient
from openenv_grpc.client.urls import Target, parse_url
from openenv_grpc.errors import InvalidRequestError
from openenv_grpc.types import Budgets, JsonValue, ServerMode, StepResult


class EnvClient(AsyncBlock, TypedClient[ActT, ObsT, StateT]):
    """Drives one session of an environment on a server.

    Derive one for an environment by naming its classes, or by the three hooks `_step_payload`,
    `_parse_result` and `_parse_state`:

    ```python
    class ChessClient(EnvClient[ChessAction, ChessObservation, ChessState]): ...

    async with ChessClient(base_url="grpc://127.0.0.1:50051") as client:
        result = await client.reset(seed=1)
    ```

    Every method but `sync` is a coroutine: called without `await` it does nothing. `sync()` gives
    the same methods for code without an event loop. A client belongs to the event loop that first
    used it. All clients of one loop share their connection to a server.

    A session outlives the loss of its connection by `resume_window_s`: calls under way wait until
    the connection is made anew, and no step is lost or done twice. A session that is lost all the
    same (`error.session_lost`) is not replaced silently: until the next `reset` every call raises.
    """

    def __init__(
        self,
        base_url: str | None = None,
        connect_timeout_s: float = 10.0,
        message_timeout_s: float | None = None,
        max_message_size_mb: float = 100.0,
        websocket_ping_interval_s: float | None = 20.0,
        websocket_ping_timeout_s: float | None = 20.0,
        provider: Provider | None = None,
        mode: str | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        environment: str = "",
        resume_window_s: float | None = 60.0,
        queue_timeout_s: float = 300.0,
        on_progress: Callable[[Progress], None] | None = None,
        events: bool = False,
        snapshot_id: str = "",
        shared_memory: bool | None = None,
        token: str | None = None,
        tls_ca: FilePath | None = None,
        tls_cert: FilePath | None = None,
        tls_key: FilePath | None = None,
    ) -> None:
        """Makes a client; nothing is sent before `connect` or the first call.

        Without a `base_url` the `provider` is started when connecting, and stopped by `close`.
        `environment` names one of a server's environments; the default one if it is empty. `token`
        is for servers that ask for one; without it that of the variable `OPENENV_GRPC_TOKEN` is
        sent, if there is one. `tls_ca` is a file with the certificates to trust in place of the
        system's, `tls_cert` and `tls_key` are the client's own, for servers that ask for one.

        `message_timeout_s` is how long the client waits for an answer where a call sets no
        `timeout_s`. `None` takes the environment's word for the longest time of a reset or step,
        and 60 where it says nothing; see `budgets`.

        `resume_window_s` is how long the session outlives the loss of its connection, which the
        client makes anew meanwhile, without its caller's noticing more than a delay. `None` or 0
        ends the session with its connection, as with servers that cannot do otherwise.

        `queue_timeout_s` is how long opening a session waits for a slot where the server has none
        free, beside what other limits allow; 0 is not at all. The server may let it wait for less,
        and one that speaks JSON does not let it wait. After five seconds the log tells the place in
        the queue.

        `on_progress` is called every few seconds while a call takes long, and whenever a tool, a
        step or a reset tells of itself, on the event loop, and not to block it; servers of the
        reference tell no progress. With `events` the server tells what happens in the session, for
        `events()`.
        With a `snapshot_id` the client's sessions go on from what another saved by `snapshot`.

        With `shared_memory` messages of 64 KiB and more go through memory that the server has
        mapped, too, where it can; else by the connection. Without it that is so if the server is on
        this machine by its URL, unless the variable `OPENENV_GRPC_SHARED_MEMORY` is 0.

        Raises:
            InvalidRequestError: an argument is of no use.
        """
        if base_url is None and provider is None:
            raise InvalidRequestError(
                "a client needs a base_url, or a provider that starts a server"
            )
        arguments.check_positive(
            connect_timeout_s=connect_timeout_s,
            message_timeout_s=message_timeout_s,
            max_message_size_mb=max_message_size_mb,
            websocket_ping_interval_s=websocket_ping_interval_s,
            websocket_ping_timeout_s=websocket_ping_timeout_s,
        )
        self._target = None if base_url is None else parse_url(base_url)
        self._base_url = base_url
        self._connect_timeout_s = connect_timeout_s
        self._message_timeout_s = message_timeout_s
        self._options = arguments.connection_options(
            self._target,
            max_message_size_mb=max_message_size_mb,
            ping_interval_s=websocket_ping_interval_s,
            ping_timeout_s=websocket_ping_timeout_s,
            headers=headers,
            token=token,
            tls_ca=tls_ca,
            tls_cert=tls_cert,
            tls_key=tls_key,
            shared_memory=shared_memory,
        )
        self._provider = provider
        self._mode = arguments.mode(mode)
        self._environment = environment
        self._resume_window_s = arguments.window(resume_window_s)
        self._queue_timeout_s = arguments.at_least_0("queue_timeout_s", queue_timeout_s)
        self._on_progress = on_progress
        self._wants_events = events
        self._snapshot_id = snapshot_id
        self._forget()

    def _forget(self) -> None:
        """Makes the client as if it had never been used."""
        self._session: RemoteSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process_id = 0
        self._connecting: asyncio.Lock | None = None
        self._events = EventLog() if self._wants_events else None
        self._children: dict[int, EnvClient[ActT, ObsT, StateT]] = {}  # by their `id`
        self._parent: EnvClient[ActT, ObsT, StateT] | None = None

    @property
    def base_url(self) -> str | None:
        """The server's URL; `None` before a provider has told it."""
        return self._base_url

    @property
    def mode(self) -> ServerMode:
        """What the client takes the server's mode to be. Nothing is sent of it."""
        return self._mode

    @property
    def budgets(self) -> Budgets:
        """How long the environment's operations take, by its author's word; see `Budgets`.

        Nothing is known of them without a session, or from a server of the reference.
        """
        return Budgets() if self._session is None else self._session.budgets

    @property
    def shares_memory(self) -> bool:
        """Whether large messages of the session go through memory; not so without a session."""
        return self._session is not None and self._session.shares_memory

    def sync(self) -> SyncEnvClient[ActT, ObsT, StateT]:
        """Returns the same client with methods that block, for code without an event loop."""
        return SyncEnvClient(self)

    async def connect(self) -> Self:
        """Opens the session, if it is not open. The first call does it too.

        Raises:
            UnavailableError: the server cannot be reached.
            SessionCapacityError: it has no free slot, and none came free in time.
        """
        await self._open(anew=True)
        return self

    async def reset(self, **kwargs: JsonValue) -> StepResult[ObsT]:
        """Starts an episode, in a new session if the last one was lost.

        `seed`, `episode_id` and the environment's own options are keywords. `timeout_s` limits the
        reset, on the server as well.
        """
        timeout_s = arguments.timeout(kwargs.pop("timeout_s", None))
        session = await self._open(anew=True)
        payload = await session.reset(kwargs, timeout_s=timeout_s)
        return self._result(payload)

    async def step(self, action: ActT, **kwargs: JsonValue) -> StepResult[ObsT]:
        """Applies an action.

        `timeout_s` limits the step, on the server as well; other keywords go to the environment.

        Raises:
            InvalidActionError: the action does not fit; nothing happened.
            EnvironmentFailedError: the environment raised.
            DeadlineExceededError: it took too long, and may still be running.
            UnavailableError, SessionNotFoundError: the connection was lost for too long, or the
                server is another; `effect` tells whether the step happened.
        """
        timeout_s = arguments.timeout(kwargs.pop("timeout_s", None)) if kwargs else None
        session = self._session
        if (
            session is None
            or session.lost is not None
            or self._loop is not asyncio.get_running_loop()
        ):
            session = await self._open()
        payload = await session.step(self._step_payload(action), kwargs, timeout_s=timeout_s)
        return self._result(payload)

    async def state(self) -> StateT:
        """Reads the environment's state."""
        session = await self._open()
        return self._parse_state(await session.state())

    async def evaluate(self) -> Evaluation:
        """Asks for the verdict on the episode as it stands, without a step.

        Raises:
            NotSupportedError: the server is a reference server, which has no such thing.
        """
        session = await self._open()
        return await session.evaluate()

    async def agent_access(self) -> AgentAccess:
        """Tells what an agent needs to use the tools of this session, and nothing else.

        It ends with the session: after one was lost, the next has another.

        Raises:
            NotSupportedError: the server offers no such thing, as reference servers do not.
        """
        session = await self._open()
        return session.agent_access()

    def events(self) -> AsyncIterator[Event]:
        """Iterates over what happens in the session beside the answers to calls.

        These are `ToolCalled` for calls of its tools by its agent, `SessionLost`, and `Draining`.
        Each is given once. The iteration outlasts the loss of a session, and ends when the client
        is closed. What happens while the connection is lost is not told later.

        Raises:
            InvalidRequestError: the client was not made with `events=True`.
        """
        if self._events is None:
            raise InvalidRequestError("nothing is told of events; make the client with events=True")
        return aiter(self._events)

    async def new_session(self) -> Self:
        """Returns a connected client of the same kind on the same server, closed with this one."""
        await self._open(anew=True)
        return await self._child(self._snapshot_id).connect()

    async def snapshot(self) -> str:
        """Saves the session as it is now, in the server, and returns the snapshot's id.

        Clients that are made with it go on from here, also after this session has ended, as long as
        the server keeps it.

        Raises:
            NotSupportedError: the environment, or the server, has no such thing.
        """
        session = await self._open()
        return await session.snapshot()

    async def fork(self) -> Self:
        """Returns a connected client whose session goes on from where this one is now.

        It is closed with this one. It raises what `snapshot` and `connect` raise.
        """
        [child] = await self.group(1)
        return child

    async def group(self, count: int) -> list[Self]:
        """Returns as many connected clients, whose sessions all go on from where this one is now.

        They are closed with this one. It raises what `snapshot` and `connect` raise, and opens none
        then.
        """
        snapshot_id = await self.snapshot()
        children = [self._child(snapshot_id) for _ in range(count)]
        await connect_all(children)
        return children

    def _child(self, snapshot_id: str) -> Self:
        child = copy.copy(self)
        child._provider = None
        child._forget()
        child._parent = self
        child._snapshot_id = snapshot_id
        self._children[id(child)] = child
        return child

    async def disconnect(self) -> None:
        """Ends the session. The next call opens another."""
        self._bind()
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def close(self) -> None:
        """Ends the session, those of `new_session` and of forks, and stops the provider."""
        self._bind()
        if self._parent is not None:
            self._parent._children.pop(id(self), None)
        children, self._children = self._children, {}
        for child in children.values():
            await child.close()
        await self.disconnect()
        self._loop = self._connecting = None
        if self._events is not None:
            self._events.close()
            self._events = EventLog()
        if self._provider is not None:
            await providers.stop(self._provider)
            self._provider = None

    async def _open(self, *, anew: bool = False) -> RemoteSession:
        """Returns the session, and opens one if there is none, or with `anew` if it was lost."""
        self._bind()
        connecting = self._connecting or asyncio.Lock()
        self._connecting = connecting
        async with connecting:  # one session, however many calls are the first
            last = self._session
            if last is not None and last.lost is None:
                return last
            if last is not None and last.lost is not None and not anew:
                raise gone(last.lost)
            session = self._session = await self._dial()
            if last is not None:
                await last.close()  # only now, so that a connection that still stands is kept
            return session

    async def _dial(self) -> RemoteSession:
        target = await self._located()
        opening = spreading.open_session(target, self._options, self._wanted())
        return await traced(opening, target=target, environment=self._environment)

    def _wanted(self) -> Wanted:
        return Wanted(
            environment=self._environment,
            connect_timeout_s=self._connect_timeout_s,
            message_timeout_s=self._message_timeout_s,
            resume_window_s=self._resume_window_s,
            queue_timeout_s=self._queue_timeout_s,
            audience=Audience(self._on_progress, self._events),
            snapshot_id=self._snapshot_id,
        )

    async def _located(self) -> Target:
        """Returns where the server is, which a provider may have to start."""
        if self._target is None:
            assert self._provider is not None  # the constructor saw to it
            self._base_url = await providers.start(self._provider)
            self._target = parse_url(self._base_url)
        return self._target

    def _bind(self) -> None:
        """Ties the client to the running event loop, on which its connection lives."""
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop, self._process_id = loop, os.getpid()
        elif self._process_id != os.getpid():
            raise InvalidRequestError(
                "this client was used before the process was forked, and its session stays with "
                "the parent; make a client in the child"
            )
        elif self._loop is not loop:
            raise InvalidRequestError(
                "this client belongs to another event loop, the one that first used it. Make a "
                "client for each loop, close() it before the next loop uses it, or use .sync(), "
                "which works from every thread and loop"
            )
