"""Payloads of many mappings alike, written from a column for each of their fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from openenv_grpc.wire import payloads, tensors
from openenv_grpc.wire.payload_bytes import Piece, attachment_head, write_json


@dataclass(frozen=True, slots=True)
class _Arrays:
    """A column of arrays: the rows of one, whose bytes follow each other."""

    head: bytes
    data: Piece
    row_bytes: int

    @classmethod
    def of(cls, name: str, column: Any) -> Self:
        """Takes up an array of at least one row."""
        data = tensors.bytes_of(column)
        row_bytes = len(data) // len(column)
        pointer = payloads.pointer_to(name)
        head = attachment_head(pointer, column.dtype, column.shape[1:], row_bytes)
        return cls(head, data, row_bytes)


@dataclass(frozen=True, slots=True)
class PayloadRows:
    """Writes them row by row, with what is alike in all rows worked out once."""

    names: tuple[str, ...]
    plain: tuple[Sequence[Any], ...]
    """Their values; `None` where an array is beside the JSON."""
    arrays: tuple[_Arrays, ...]
    text: bytes | None
    """The JSON, where there are only arrays beside it, so that it is the same in all rows."""

    @classmethod
    def of(cls, columns: Mapping[str, Sequence[Any]]) -> Self | None:
        """Takes up columns of the same length; `None` unless all have just scalars, or arrays."""
        arrays: list[_Arrays] = []
        plain: list[Sequence[Any]] = []
        for name, column in columns.items():
            if type(name) is not str or not len(column):
                return None
            if tensors.is_array(column):
                arrays.append(_Arrays.of(name, column))
                plain.append([None] * len(column))
            elif payloads.is_flat(column):
                plain.append(column)
            else:
                return None
        constant = write_json(dict.fromkeys(columns)) if len(arrays) == len(columns) else None
        return cls(tuple(columns), tuple(plain), tuple(arrays), constant)

    def write(self, row: int) -> bytes:
        """Writes one of them."""
        text = self.text
        if text is None:
            values = [column[row] for column in self.plain]
            text = write_json(dict(zip(self.names, values, strict=True)))
        if not self.arrays:
            return text
        pieces: list[Piece] = [text]
        for each in self.arrays:
            start = row * each.row_bytes
            pieces += (each.head, each.data[start : start + each.row_bytes])
        return b"".join(pieces)
