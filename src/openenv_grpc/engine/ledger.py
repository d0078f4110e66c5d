"""What a session has been asked so far, by number: so that nothing is ever done twice."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field

from openenv_grpc.errors import (
    Effect,
    OpenEnvError,
    OutcomeForgottenError,
    OutOfOrderError,
    RequestConflictError,
)
from openenv_grpc.operations import Deliver, Operation, Reply

MAX_RECORDS = 64
MAX_BYTES = 8 * 2**20


@dataclass(eq=False)
class _Record:
    """One number: what was asked, and the answer once there is one."""

    digest: bytes | str
    answered: bool = field(default=False, init=False)
    content: bytes = field(default=b"", init=False)
    error: OpenEnvError | None = field(default=None, init=False)
    forgotten: bool = field(default=False, init=False)
    """Whether the answer was dropped, and only what it meant is known."""
    waiting: list[tuple[Operation, Deliver]] | None = field(default=None, init=False)
    """Repeats of what is still running; `None` if there was none."""

    @property
    def effect(self) -> Effect:
        """What the operation did."""
        return Effect.DONE if self.error is None else self.error.effect


class Ledger:
    """Numbers and answers of one session.

    Keeps the latest answers, up to a number and a size; of an answer that is too large, whether the
    operation took effect. Answers to operations that the session numbered itself are not kept,
    since nobody can ask for them again.
    """

    def __init__(self, *, max_records: int = MAX_RECORDS, max_bytes: int = MAX_BYTES) -> None:
        self.last_id = 0
        self._max_records = max_records
        self._max_bytes = max_bytes
        self._records: dict[int, _Record] = {}
        self.kept_bytes = 0
        """Size of the answers that are kept."""
        self._kept = 0

    def is_repeat(self, operation: Operation) -> bool:
        """Tells whether the number was used before.

        Raises:
            OutOfOrderError: it is higher than the next one.
        """
        number, due = operation.request_id, self.last_id + 1
        if not number or number == due:
            return False
        if number < due:
            return True
        raise OutOfOrderError(
            f"request_id {number} came where {due} is next; send operations of a session in "
            "order, without gaps"
        )

    def begin(self, operation: Operation) -> None:
        """Uses up the next number."""
        number = operation.request_id
        if number is None:
            return
        self.last_id += 1
        if number == 0:
            operation.request_id = self.last_id
        else:
            self._records[number] = _Record(operation.digest)

    def repeat(self, operation: Operation, deliver: Deliver) -> Reply | None:
        """Returns the answer to a repeat; `None` if it is due and `deliver` will get it.

        Raises:
            RequestConflictError: the number was used for something else.
            OutcomeForgottenError: the answer is no longer kept.
        """
        number = operation.request_id
        record = None if number is None else self._records.get(number)
        if record is None:
            raise _forgotten(number, Effect.UNKNOWN)
        if record.digest != operation.digest:
            raise RequestConflictError(
                f"request_id {number} was used before, for another operation; the next one is "
                f"{self.last_id + 1}"
            )
        if record.forgotten:
            raise _forgotten(number, record.effect)
        if record.answered:
            return Reply(operation, record.content, record.error)
        if record.waiting is None:
            record.waiting = []
        record.waiting.append((operation, deliver))
        return None

    def finish(self, reply: Reply) -> Sequence[tuple[Operation, Deliver]]:
        """Keeps an answer. Returns the repeats that waited for it."""
        number = reply.operation.request_id
        record = None if number is None else self._records.get(number)
        if record is None:
            return ()
        waiting, record.waiting = record.waiting, None
        record.answered = True
        record.content = reply.content
        record.error = reply.error and bare(reply.error)
        self._kept += 1
        self.kept_bytes += len(reply.content)
        while self._kept > self._max_records and self._drop_oldest():
            pass
        if self.kept_bytes > self._max_bytes:
            self._shrink()
        return waiting or []

    def withdraw(self, operation: Operation) -> Deliver | None:
        """Takes back a repeat that waits for its answer; returns its `deliver`."""
        record = self._records.get(operation.request_id or 0)
        if record is None or record.waiting is None:
            return None
        for place, (repeat, deliver) in enumerate(record.waiting):
            if repeat is operation:
                del record.waiting[place]
                return deliver
        return None

    def acknowledge(self, request_id: int) -> None:
        """Forgets the answers up to a number."""
        records = self._records
        while records:
            number = next(iter(records))
            record = records[number]
            if number > request_id or not record.answered:
                return
            del records[number]
            self._kept -= 1
            self.kept_bytes -= len(record.content)

    def _drop_oldest(self) -> bool:
        """Forgets the oldest answer; tells whether there was one to forget."""
        kept = self._kept
        self.acknowledge(next(iter(self._records)))
        return self._kept < kept

    def _shrink(self) -> None:
        """Drops the oldest answers until the rest is small enough."""
        for record in self._records.values():
            if record.answered and not record.forgotten:
                self.kept_bytes -= len(record.content)
                record.content, record.forgotten = b"", True
                if self.kept_bytes <= self._max_bytes:
                    return


def _forgotten(number: int | None, effect: Effect) -> OutcomeForgottenError:
    return OutcomeForgottenError(
        f"request_id {number} was used before and its outcome is no longer kept", effect=effect
    )


def bare(error: OpenEnvError) -> OpenEnvError:
    """Returns an error without traceback and cause, which hold on to an environment's values."""
    return copy.copy(error)
