"""One `Connect` stream, from its hello to its end. `Link` makes another after it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib.metadata
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from google.protobuf.message import DecodeError

from openenv_grpc.busy_polling import BusyPolling
from openenv_grpc.client.sharing import OfferedSharing
from openenv_grpc.client.transport import ConnectionOptions, Transport
from openenv_grpc.crew import Crew
from openenv_grpc.errors import (
    Effect,
    InternalError,
    MessageTooLargeError,
    OpenEnvError,
    ProtocolViolationError,
    UnavailableError,
)
from openenv_grpc.events import log_event
from openenv_grpc.stream import COALESCED_BYTES, SHARED_BYTES, Outbox
from openenv_grpc.v1 import session_pb2
from openenv_grpc.wire import status
from openenv_grpc.wire.crew import read_workers
from openenv_grpc.wire.peeling import Peeled, peel, peel_outcome

MessageT = TypeVar("MessageT", session_pb2.ConnectResponse, session_pb2.Outcome)

logger = logging.getLogger(__name__)

DEFAULT_MESSAGE_BYTES = 4 * 2**20
"""What a server takes that does not say how much."""

OUTCOMES_PER_TURN = 32
"""Outcomes handed out in one turn of the event loop.

What their receivers ask next leaves before the rest is handed out. Else sessions that are driven
alike end up in one message, and server and client wait for each other in turn.
"""

LARGE_BYTES = COALESCED_BYTES
"""From which size on an outcome keeps others waiting, and its session should go elsewhere."""

DRAINING = "draining"
"""The feature of clients that take the event of that name."""

_CLOSE_TIMEOUT_S = 5.0
_FRAME_BYTES = 16  # at most: what an operation has before it in the message
_BARRIER = -1  # a control id


class Receiver(Protocol):
    """A session, as its connection sees it."""

    def receive(self, outcome: session_pb2.Outcome, kind: str | None) -> None:
        """Takes what one of its operations led to, or an event; `kind` names which it is."""
        ...

    def peel(self, outcome: session_pb2.Outcome, peeled: Peeled) -> None:
        """Takes what was taken out of the outcome that it receives next."""
        ...

    def outgrow(self) -> None:
        """Learns that what it receives next is large, and kept others waiting."""
        ...


class _Barrier:
    """Waits for the answer to something that is answered at once."""

    def __init__(self) -> None:
        self.passed = asyncio.Event()

    def receive(self, outcome: session_pb2.Outcome, kind: str | None) -> None:
        """See `Receiver`."""
        if outcome.control_id == _BARRIER:
            self.passed.set()

    def peel(self, outcome: session_pb2.Outcome, peeled: Peeled) -> None:
        """See `Receiver`."""

    def outgrow(self) -> None:
        """See `Receiver`."""


class Connection:
    """Carries operations one way and their outcomes the other.

    Only its own tasks read and write. What is sent in one turn of the event loop leaves as one
    message.
    """

    def __init__(
        self, transport: Transport, options: ConnectionOptions, *, target: str, local: bool = False
    ) -> None:
        """Makes one. `local` tells whether the server is surely on this machine."""
        self._transport = transport
        self._sharing = OfferedSharing()
        self._options = options
        self._shares = local if options.shared_memory is None else options.shared_memory
        self._target = target
        self._outbox = Outbox()
        self._polling = BusyPolling(options.busy_poll_s)
        self._receivers: dict[int, Receiver] = {}
        self._last_number = 0
        self._loop = asyncio.get_running_loop()
        self._made_at = self._heard_at = self._loop.time()
        self._greeting: asyncio.Future[session_pb2.ServerHello] = self._loop.create_future()
        self._task: asyncio.Task[None] | None = None
        self._closing = False
        self.operation_bytes = DEFAULT_MESSAGE_BYTES - _FRAME_BYTES
        """How large an operation may be, without the session's number."""
        self.operations_limit = 0
        """How many operations of a session may be in flight; 0 for any number."""
        self.features: frozenset[str] = frozenset()
        """What the server can do beyond the usual."""
        self.crew: Crew | None = None
        """The worker processes of the server, if it has several."""
        self.draining = False
        """Whether the server has said that it is about to stop, and takes no new sessions."""
        self._answered = False  # whether an operation has got its outcome here
        self.on_end: Callable[[OpenEnvError], None] | None = None
        """Called once when the stream has ended, which `start` tells by itself."""
        self.on_cancel: Callable[[], Awaitable[None]] | None = None
        """Awaited if the event loop ends before the stream has been closed."""
        self.lost: OpenEnvError | None = None
        """Why the connection is gone; `None` while it is there."""

    async def start(self, *, timeout_s: float) -> None:
        """Says hello and waits for the server's.

        Raises:
            OpenEnvError: the server cannot be reached or refuses.
        """
        hello = session_pb2.ConnectRequest()
        hello.client.name = "openenv-grpc-python"
        hello.client.version = _version()
        hello.client.features.append(DRAINING)
        hello.client.max_receive_size_bytes = self._options.max_message_bytes
        if self._shares:
            self._sharing.offer(hello.client)
        self._outbox.put(hello.SerializeToString())
        self._task = self._loop.create_task(self._run(), name="openenv-grpc connection")
        try:
            async with asyncio.timeout(timeout_s):
                greeting = await self._greeting
        except TimeoutError:
            await self.close()
            raise UnavailableError(
                f"{self._target} did not answer within {timeout_s:g} s"
            ) from None
        except BaseException:
            await self.close()
            raise
        self.operations_limit = greeting.max_operations_per_session
        self.features = frozenset(greeting.features)
        self.crew = read_workers(greeting.workers)
        size_limit = greeting.max_receive_size_bytes or DEFAULT_MESSAGE_BYTES
        self.operation_bytes = size_limit - _FRAME_BYTES
        self._outbox.limit_bytes = min(self._outbox.limit_bytes, size_limit)

    @property
    def shares_memory(self) -> bool:
        """Whether large messages go through memory that the server has mapped, too."""
        return self._sharing.agreed

    def went_well(self, steady_s: float) -> bool:
        """Tells whether operations were answered here, or the stream has stood for that long."""
        return self._answered or self._loop.time() - self._made_at >= steady_s

    def add(self, receiver: Receiver) -> int:
        """Takes up a session and returns its number on the stream."""
        self._last_number += 1
        self._receivers[self._last_number] = receiver
        return self._last_number

    def give(self, number: int, receiver: Receiver) -> None:
        """Has another take what comes for a number, if it is in use still."""
        if number in self._receivers:
            self._receivers[number] = receiver

    def remove(self, number: int) -> None:
        """Forgets a session that has ended."""
        self._receivers.pop(number, None)

    def too_large(self, operation: bytes) -> MessageTooLargeError:
        """Refuses an operation of more than `operation_bytes`, which the server would not take."""
        size, limit = len(operation) + _FRAME_BYTES, self.operation_bytes + _FRAME_BYTES
        return MessageTooLargeError(
            f"the operation has {size} bytes, and {self._target} takes {limit}; "
            "send less at once, or raise the server's limit",
            metadata={"size_bytes": str(size), "limit_bytes": str(limit)},
        )

    def send(self, operation: bytes, prefix: bytes) -> None:
        """Sends an operation that lacks the session's number, which `prefix` has."""
        if len(operation) >= SHARED_BYTES:
            operation = self._sharing.put(operation)
        self._outbox.put_framed(operation, prefix)
        self._polling.begin()

    async def settle(self, limit_s: float) -> None:
        """Waits until the server has read all that was sent so far, or the limit has passed."""
        barrier = self._receivers[0] = _Barrier()  # no session of ours has that number
        operation = session_pb2.Operation(control_id=_BARRIER)
        operation.cancel.SetInParent()
        self.send(operation.SerializeToString(), b"")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await barrier.passed.wait()

    async def close(self) -> None:
        """Ends the stream."""
        self._closing = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,), timeout=_CLOSE_TIMEOUT_S)
        self._sharing.close()  # else done already, unless the task had not begun

    @property
    def is_gone(self) -> bool:
        """Whether nothing is left of the stream."""
        return self._task is None or self._task.done()

    async def gone(self) -> None:
        """Waits until nothing is left of a stream that has ended by itself."""
        if self._task is not None:
            await asyncio.wait((self._task,), timeout=_CLOSE_TIMEOUT_S)

    async def _run(self) -> None:
        """Lives as long as the stream does."""
        error: OpenEnvError = UnavailableError(
            f"the connection to {self._target} was closed", session_lost=True
        )
        try:
            error = await self._carry()
        except asyncio.CancelledError:
            if not self._closing and self.on_cancel is not None:
                await self.on_cancel()
            raise
        finally:
            self._end(error)
            self._sharing.close()
            with contextlib.suppress(OpenEnvError, OSError, TimeoutError):
                async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                    await self._transport.close()

    async def _carry(self) -> OpenEnvError:
        """Carries messages, and returns what the stream ended with."""
        error: OpenEnvError = InternalError(f"the connection to {self._target} failed")
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._receive())
                tasks.create_task(self._send())
                tasks.create_task(self._watch())
        except* OpenEnvError as failures:
            error = _first(failures)
        except* Exception as failures:
            log_event(
                logger, logging.ERROR, "connection failed", error=failures, target=self._target
            )
            error.__cause__ = failures
        return error

    def _end(self, error: OpenEnvError) -> None:
        self.lost = error
        if not self._greeting.done():
            self._greeting.set_exception(error)
            self._greeting.exception()  # whoever waits gets it; nobody might
        self._receivers.clear()
        if self.on_end is not None:
            self.on_end(error)

    async def _receive(self) -> None:
        read, receivers = self._transport.read, self._receivers
        while (data := await read()) is not None:
            self._polling.end()
            self._heard_at = self._loop.time()
            peeled = peel(data) if len(data) > LARGE_BYTES else None
            content = data if peeled is None else peeled.message
            response = self._parse(session_pb2.ConnectResponse, content)
            if not self._greeting.done() and response.HasField("server"):
                self._sharing.hear(response.server)
                self._greeting.set_result(response.server)
            if len(data) > LARGE_BYTES:
                self._tell_large(response, peeled)
            self._answered = self._answered or self._has_answer(response)
            for count, outcome in enumerate(response.outcomes[:], 1):
                kind = outcome.WhichOneof("kind")
                if kind == "shared_block":
                    outcome = self._taken(outcome)
                    kind = outcome.WhichOneof("kind")
                receiver = receivers.get(outcome.session)
                if receiver is None:
                    self._hear(outcome, kind)
                else:
                    receiver.receive(outcome, kind)
                if count % OUTCOMES_PER_TURN == 0:
                    await asyncio.sleep(0)
        raise UnavailableError(f"{self._target} ended the stream", effect=Effect.UNKNOWN)

    def _parse(self, kind: type[MessageT], data: bytes) -> MessageT:
        try:
            return kind.FromString(data)
        except DecodeError as error:
            raise ProtocolViolationError(
                f"{self._target} sent a message that is no {kind.__name__}", effect=Effect.UNKNOWN
            ) from error

    def _taken(self, outcome: session_pb2.Outcome) -> session_pb2.Outcome:
        """Takes an outcome out of the shared memory."""
        limit_bytes = self._options.max_message_bytes
        data = self._sharing.take(outcome.shared_block, limit_bytes=limit_bytes)
        peeled = peel_outcome(data) if len(data) > LARGE_BYTES else None
        found = self._parse(session_pb2.Outcome, data if peeled is None else peeled.message)
        found.session = outcome.session
        receiver = self._receivers.get(outcome.session)
        if peeled is not None and receiver is not None:
            receiver.peel(found, peeled)
        return found

    def _tell_large(self, response: session_pb2.ConnectResponse, peeled: Peeled | None) -> None:
        for place, outcome in enumerate(response.outcomes):
            receiver = self._receivers.get(outcome.session)
            if receiver is None:
                continue
            if peeled is not None and peeled.outcome == place:
                receiver.peel(outcome, peeled)
                receiver.outgrow()
            elif outcome.ByteSize() > LARGE_BYTES:
                receiver.outgrow()

    def _has_answer(self, response: session_pb2.ConnectResponse) -> bool:
        return any(
            outcome.request_id > 0 and outcome.session in self._receivers
            for outcome in response.outcomes
        )

    def _hear(self, outcome: session_pb2.Outcome, kind: str | None) -> None:
        """Takes what is for no session here, or for all of them."""
        if outcome.session == -1 and kind == "error":
            raise status.decode_error(outcome.error)
        if outcome.session == -1 and outcome.event.HasField("draining"):
            self.draining = True
            for each in list(self._receivers.values()):
                each.receive(outcome, kind)
        # What is left is late, for a session that has ended, or an event of the stream.

    async def _send(self) -> None:
        write = self._transport.write
        try:
            while (data := await self._outbox.take()) is not None:
                await write(data)
        except OpenEnvError:
            pass  # the reader meets the end of the stream too, and knows more of it

    async def _watch(self) -> None:
        """Sends a heartbeat over a silent stream, and ends one that stays silent."""
        interval_s, timeout_s = self._options.ping_interval_s, self._options.ping_timeout_s
        if interval_s is None:
            return
        while True:
            silent_s = self._loop.time() - self._heard_at
            if silent_s < interval_s:
                await asyncio.sleep(interval_s - silent_s)
                continue
            asked_at = self._loop.time()
            self._outbox.put(b"")  # an empty message is a heartbeat
            await asyncio.sleep(interval_s if timeout_s is None else timeout_s)
            if timeout_s is not None and self._heard_at < asked_at:
                raise UnavailableError(
                    f"{self._target} gave no sign of life for {interval_s + timeout_s:g} s",
                    effect=Effect.UNKNOWN,
                )


def _first(failures: BaseExceptionGroup[OpenEnvError]) -> OpenEnvError:
    first = failures.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


@functools.cache
def _version() -> str:
    try:
        return importlib.metadata.version("openenv-grpc")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
