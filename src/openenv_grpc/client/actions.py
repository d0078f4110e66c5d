"""The actions of a vector client: one for each environment, listed or by the batches of fields."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from openenv_grpc.client import operations, parsing
from openenv_grpc.client.batches import numpy_module
from openenv_grpc.client.remote_session import Actions
from openenv_grpc.errors import InvalidRequestError, UnserializableResultError
from openenv_grpc.types import JsonValue
from openenv_grpc.wire.payload_rows import PayloadRows


class ListedActions:
    """Actions as they are given: mappings, models, objects. Implements `Actions`."""

    def __init__(self, actions: Sequence[Any]) -> None:
        self._fields = [parsing.action_payload(action) for action in actions]

    def fields(self, row: int) -> Mapping[str, JsonValue]:
        """See `Actions`."""
        return self._fields[row]

    def payload(self, row: int) -> bytes:
        """See `Actions`."""
        return operations.payload(self._fields[row])


class BatchedActions:
    """Actions of which each field is a batch. Implements `Actions`."""

    def __init__(self, columns: Mapping[str, Sequence[Any]]) -> None:
        self._columns = columns
        self._rows: PayloadRows | None = None
        with contextlib.suppress(UnserializableResultError):  # it is told of the row that it is in
            self._rows = PayloadRows.of(columns)

    def fields(self, row: int) -> Mapping[str, JsonValue]:
        """See `Actions`."""
        return {name: column[row] for name, column in self._columns.items()}

    def payload(self, row: int) -> bytes:
        """See `Actions`."""
        if self._rows is None:
            return operations.payload(self.fields(row))
        return self._rows.write(row)


def read_actions(actions: Any, count: int) -> Actions:
    """Takes a sequence of actions, or a mapping that gives each of their fields a batch.

    Raises:
        InvalidRequestError: there are more or fewer than `count`.
    """
    if isinstance(actions, Mapping):
        return BatchedActions(_columns(actions, count))
    if not isinstance(actions, Sequence) or isinstance(actions, str):
        raise InvalidRequestError(
            "actions are a sequence of actions, or a mapping that gives each field a batch: "
            f'{{"FIELD": [...]}}, not {type(actions).__name__}'
        )
    _check_count(actions, count, "actions")
    return ListedActions(actions)


def _columns(batches: Mapping[str, Any], count: int) -> dict[str, Sequence[Any]]:
    columns = {name: _column(batch) for name, batch in batches.items()}
    for name, column in columns.items():
        _check_count(column, count, str(name))
    return columns


def _column(batch: JsonValue) -> Sequence[Any]:
    """Returns a batch of one field, item by item."""
    if isinstance(batch, dict):
        count = len(next(iter(batch.values()), ()))
        inner = _columns(batch, count)
        return [{name: each[row] for name, each in inner.items()} for row in range(count)]
    if isinstance(batch, numpy_module().ndarray) and batch.ndim:
        plain: Sequence[Any] = batch.tolist() if batch.ndim == 1 else batch
        return plain
    if isinstance(batch, Sequence) and not isinstance(batch, str):
        return batch
    raise InvalidRequestError(
        f"each field of the actions has a batch, with one entry an environment, not {batch!r}"
    )


def _check_count(entries: Sequence[Any], count: int, what: str) -> None:
    if len(entries) != count:
        raise InvalidRequestError(f"{what} has {len(entries)} entries for {count} environments")
