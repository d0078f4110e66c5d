"""One `Connect` stream at its server's end: operations in, outcomes out, any number of sessions."""

from __future__ import annotations

import asyncio
from functools import partial
from time import monotonic

from openenv_grpc import tracing
from openenv_grpc.access import Access
from openenv_grpc.errors import (
    InvalidRequestError,
    OpenEnvError,
    ProtocolViolationError,
    SessionNotFoundError,
    UnavailableError,
)
from openenv_grpc.operations import Kind, Operation, Reply
from openenv_grpc.sessions import (
    Attachment,
    QueuePlace,
    Resume,
    SessionHost,
    SessionPort,
    Wait,
    Watch,
)
from openenv_grpc.stream.held import Held
from openenv_grpc.stream.hello import hello_of
from openenv_grpc.stream.incoming import SUBMITTED, parse_request, read_open, read_operation
from openenv_grpc.stream.limits import (
    DEFAULT_RECEIVE_BYTES,
    MIN_RECEIVE_BYTES,
    Duplex,
    StreamLimits,
    too_large,
)
from openenv_grpc.stream.outbox import Outbox, prefix_of
from openenv_grpc.stream.sharing import SHARED_BYTES, Sharing, accept, taken_operation
from openenv_grpc.stream.unasked import DRAINING, Unasked
from openenv_grpc.v1 import session_pb2
from openenv_grpc.wire.operations import failed_outcome, queue_progress

OPERATIONS_AT_ONCE = 512
"""Operations of one message that are taken before others on the loop have their turn."""

_CLOSE = Kind.CLOSE

TURN_S = 0.005
"""How long that may take, with what inline environments do meanwhile."""

OPENING_ID = 1
"""The number of a session's first operation."""

_FRAME_BYTES = 32  # more than what stands around an outcome in a message


async def serve_stream(
    duplex: Duplex,
    host: SessionHost,
    *,
    peer: str,
    limits: StreamLimits | None = None,
    stopping: asyncio.Future[None] | None = None,
    access: Access | None = None,
) -> None:
    """Serves a stream until its end, then ends its sessions, or detaches those with a window.

    `access` is what agents of its sessions get; that the client may be here is for its door to see.
    When the client ends its side, or `stopping` is done, operations under way are still done and
    answered. No other code may read or write the duplex.

    Raises:
        ProtocolViolationError: the client sent what is no message; the stream cannot go on.
        MessageTooLargeError: the client sent more operations in a message than the limits allow.
        UnavailableError: `stopping` was done.
    """
    async with host.attach(peer=peer) as attachment:
        stream = _ServerStream(host, attachment, limits or StreamLimits(), access or Access())
        if stopping is None:
            await stream.run(duplex)
            return
        stopping.add_done_callback(stream.stop)
        try:
            await stream.run(duplex)
        finally:
            stopping.remove_done_callback(stream.stop)


class _ServerStream:
    def __init__(
        self, host: SessionHost, attachment: Attachment, limits: StreamLimits, access: Access
    ) -> None:
        self._host = host
        self._grant = access.grant_of(host)
        self._attachment = attachment
        self._limits = limits
        self._outbox = Outbox()
        self._sessions: dict[int, Held] = {}
        self._traced = tracing.configured() is not None
        self._used: set[int] = set()  # numbers are never used again
        self._pending = 0  # operations without an outcome, of all sessions
        self._ended = False  # the client sends no more, or nobody reads it
        self._stopped = False
        self._reading: asyncio.Task[None] | None = None
        self._outcome_limit = DEFAULT_RECEIVE_BYTES - _FRAME_BYTES
        self._sharing: Sharing | None = None
        self._unasked = Unasked(
            host,
            self._outbox,
            interval_s=limits.progress_interval_s,
            max_unsent_bytes=limits.max_unsent_bytes,
        )
        self._unasked.outcome_limit = self._outcome_limit

    async def run(self, duplex: Duplex) -> None:
        """Carries messages to the end of the stream. Raises what `serve_stream` raises."""
        failure: OpenEnvError | None = None
        try:
            async with asyncio.TaskGroup() as tasks:
                self._unasked.start(tasks)
                self._reading = tasks.create_task(self._read_from(duplex))
                tasks.create_task(self._write_to(duplex))
        except* OpenEnvError as failures:
            failure = first_of(failures)
        except* ConnectionError:
            pass  # the client has gone
        finally:
            if self._sharing is not None:
                self._sharing.close()
        if failure is None and self._stopped:
            failure = UnavailableError(
                "the server is shutting down; open a session elsewhere",
                session_lost=True,  # also those that have a window
            )
        if failure is not None:
            raise failure

    def stop(self, _: object) -> None:
        """Reads no more, and ends the stream once what is under way has been answered."""
        self._stopped = True
        if self._reading is not None:
            self._reading.cancel()
        self._end()

    async def _read_from(self, duplex: Duplex) -> None:
        while (data := await duplex.read()) is not None:
            await self._take(data)
        self._end()

    async def _write_to(self, duplex: Duplex) -> None:
        while (data := await self._outbox.take()) is not None:
            await duplex.write(data)
        self._unasked.stop()

    def _end(self) -> None:
        self._ended = True
        self._close_if_done()

    def _close_if_done(self) -> None:
        if self._ended and self._pending == 0:
            self._outbox.close()

    async def _take(self, data: bytes) -> None:
        request = parse_request(data, self._limits.max_operations_per_message)
        if request.HasField("client"):
            self._greet(request.client)
        elif not request.operations:
            self._outbox.put(b"")  # answers a heartbeat
        limit = self._limits.max_unsent_bytes
        turn_ends = monotonic() + TURN_S
        for index, operation in enumerate(request.operations[:], start=1):
            if index % OPERATIONS_AT_ONCE == 0 or monotonic() > turn_ends:
                await asyncio.sleep(0)
                turn_ends = monotonic() + TURN_S
            if self._outbox.size_bytes >= limit:
                await self._outbox.below(limit)
            arm = operation.WhichOneof("kind")
            if arm == "shared_block":
                operation = taken_operation(
                    self._sharing, operation, limit_bytes=self._limits.max_receive_bytes
                )
                arm = operation.WhichOneof("kind")
            try:
                if arm in SUBMITTED:
                    self._submit(operation, arm)
                else:
                    self._operate(operation, arm)
            except OpenEnvError as error:
                self._fail(operation, error)
        await self._outbox.below(limit)

    def _greet(self, client: session_pb2.ClientHello) -> None:
        limit = client.max_receive_size_bytes or DEFAULT_RECEIVE_BYTES
        if limit < MIN_RECEIVE_BYTES:
            raise ProtocolViolationError(
                f"max_receive_size_bytes is 0 or at least {MIN_RECEIVE_BYTES}, not {limit}"
            )
        self._outcome_limit = self._unasked.outcome_limit = limit - _FRAME_BYTES
        if DRAINING in client.features:
            self._unasked.tell_draining()
        self._outbox.limit_bytes = min(self._outbox.limit_bytes, limit)
        newly = None
        if self._sharing is None:
            newly = self._sharing = accept(client, max_bytes=self._limits.max_shared_bytes)
        self._outbox.put(hello_of(self._host, self._limits, shares_memory=newly is not None))

    def _operate(self, operation: session_pb2.Operation, arm: str | None) -> None:
        if operation.session < 0:
            raise InvalidRequestError("a session's number is at least 0")
        match arm:
            case "open":
                self._open(operation)
            case "cancel":
                self._cancel(operation)
            case "attach":
                self._attach(operation)
            case _:
                raise InvalidRequestError("the operation says nothing to do; set one of its kinds")

    def _open(self, operation: session_pb2.Operation) -> None:
        held = self._new(operation)
        opening, resume, wait = read_open(operation, partial(self._tell_place, held))
        if self._traced:
            opening.trace = operation.traceparent
        if operation.open.agent_access:
            opening.context = self._grant
        watch = self._unasked.watch(held.prefix) if operation.open.events else None
        self._start(
            held,
            operation.open.environment,
            wait,
            opening,
            resume=resume,
            watch=watch,
            snapshot_id=operation.open.snapshot_id,
        )
        if operation.open.progress and held.port is not None:
            reports = operation.open.reports
            self._unasked.follow(held.prefix, held.port, reports=reports)

    def _new(self, operation: session_pb2.Operation) -> Held:
        number = operation.session
        if number in self._used:
            raise InvalidRequestError(f"session {number} was opened before; choose another number")
        return Held(number, self._deliver)

    def _start(
        self,
        held: Held,
        environment: str,
        wait: Wait,
        opening: Operation | None = None,
        *,
        resume: Resume | None = None,
        snapshot_id: str = "",
        watch: Watch | None = None,
    ) -> None:
        """Opens a session; raises, and leaves nothing behind, if it is refused."""
        if opening is not None:
            held.pending += 1
            self._pending += 1
        try:
            held.port = self._attachment.open(
                environment,
                operation=opening,
                deliver=held.deliver,
                on_lost=partial(self._lost, held),
                resume=resume,
                wait=wait,
                snapshot_id=snapshot_id,
                watch=watch,
            )
        except OpenEnvError as error:
            self._settle(held, held.pending)
            error.session_lost = True
            raise
        self._hold(held)

    def _hold(self, held: Held) -> None:
        self._used.add(held.number)
        self._sessions[held.number] = held

    def _submit(self, operation: session_pb2.Operation, arm: str) -> None:
        number = operation.session
        held = self._sessions.get(number) or self._started(number)
        port = held.port
        assert port is not None  # set before it is among the sessions
        acknowledged = operation.acknowledged_id
        if acknowledged:
            port.acknowledge(acknowledged)
        submitted, deliver = read_operation(operation, arm), held.deliver
        if self._traced:
            submitted.trace = operation.traceparent
        if self._unasked.reported:
            deliver = self._unasked.heard(held.prefix, submitted, deliver)
        held.pending += 1
        self._pending += 1
        port.submit(submitted, deliver)

    def _started(self, number: int) -> Held:
        """Opens the session that needs no `open`, for its first operation."""
        if number < 0:
            raise InvalidRequestError("a session's number is at least 0")
        if number != 0 or 0 in self._used:
            raise SessionNotFoundError(
                f"session {number} is not open on this stream, or has ended; open one under a "
                "number of its own"
            )
        held = Held(0, self._deliver)
        self._start(held, "", Wait())
        return held

    def _attach(self, operation: session_pb2.Operation) -> None:
        held, asked = self._new(operation), operation.attach
        held.port = port = self._attachment.attach(
            asked.session_id,
            asked.resume_key,
            on_lost=partial(self._lost, held),
            watch=self._unasked.watch(held.prefix) if asked.events else None,
        )
        self._hold(held)
        if asked.progress:
            self._unasked.follow(held.prefix, port, reports=asked.reports)
        outcome = session_pb2.Outcome(control_id=operation.control_id)
        outcome.attach.last_request_id = port.last_request_id
        self._outbox.put_framed(outcome.SerializeToString(), held.prefix)

    def _cancel(self, operation: session_pb2.Operation) -> None:
        held = self._sessions.get(operation.session)
        if held is None or held.port is None:
            raise SessionNotFoundError(f"session {operation.session} is not open on this stream")
        effect = held.port.cancel(operation.cancel.request_id)
        outcome = session_pb2.Outcome(control_id=operation.control_id)
        outcome.cancel.effect = session_pb2.CancelEffect.ValueType(effect)
        self._outbox.put_framed(outcome.SerializeToString(), held.prefix)

    def _settle(self, held: Held, count: int) -> None:
        """Expects no more outcomes, of as many operations."""
        held.pending -= count
        self._pending -= count
        if self._ended:
            self._close_if_done()

    def _deliver(self, held: Held, reply: Reply) -> None:
        content, error = reply.content, reply.error
        if len(content) > self._outcome_limit:
            content = too_large(reply, self._outcome_limit)
        if self._sharing is not None and len(content) >= SHARED_BYTES:
            content = self._sharing.put(content)
        self._outbox.put_framed(content, held.prefix)
        if error.session_lost if error is not None else reply.operation.kind is _CLOSE:
            self._drop(held)
        held.pending -= 1
        self._pending -= 1
        if self._ended:
            self._close_if_done()

    def _drop(self, held: Held) -> None:
        self._sessions.pop(held.number, None)
        self._unasked.forget(held.prefix)

    def _tell_place(self, held: Held, place: QueuePlace) -> None:
        outcome = queue_progress(place, request_id=OPENING_ID)
        self._outbox.put_framed(outcome, held.prefix)

    def _lost(self, held: Held, session: SessionPort, error: OpenEnvError) -> None:
        self._unasked.lost(held.prefix, error)
        if error.session_lost:
            self._drop(held)
        else:
            self._unasked.forget(held.prefix)
        if not error.session_lost:  # but held elsewhere, where its replies go
            self._settle(held, held.pending)

    def _fail(self, operation: session_pb2.Operation, error: OpenEnvError) -> None:
        write = partial(
            failed_outcome,
            error,
            request_id=operation.request_id,
            control_id=operation.control_id,
        )
        content = write()
        if len(content) > self._outcome_limit:
            content = write(brief=True)
        self._outbox.put_framed(content, prefix_of(operation.session))


def first_of(failures: BaseExceptionGroup[OpenEnvError]) -> OpenEnvError:
    """Returns the first error of a group."""
    first = failures.exceptions[0]
    return first_of(first) if isinstance(first, BaseExceptionGroup) else first
