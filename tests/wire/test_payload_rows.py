"""Payloads of rows, written from columns: the bytes of each row written by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from openenv_grpc.errors import UnserializableResultError
from openenv_grpc.wire.payload_bytes import write_payload
from openenv_grpc.wire.payload_rows import PayloadRows

ROWS = 3
TEXTS = st.text() | st.text(',"\\{}[]: a')  # of what separates values in JSON, too
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS
COLUMNS = st.dictionaries(
    TEXTS.filter(bool),
    st.lists(SCALARS, min_size=ROWS, max_size=ROWS)
    | arrays.arrays(
        st.sampled_from(["bool", "uint8", ">i2", "float32", ">f8"]),
        arrays.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4).map(
            lambda shape: (ROWS, *shape)
        ),
    ),
    min_size=1,
    max_size=4,
)


@given(COLUMNS)
def test_a_row_is_written_as_if_it_were_alone(columns: dict[str, Any]) -> None:
    rows = PayloadRows.of(columns)
    assert rows is not None
    for row in range(ROWS):
        alone = write_payload({name: column[row] for name, column in columns.items()})
        assert rows.write(row) == alone


def test_rows_of_an_array_that_lies_otherwise_are_written_in_order() -> None:
    column: Any = np.arange(24, dtype=np.float32).reshape(4, 2, 3).T
    rows = PayloadRows.of({"x": column})
    assert rows is not None
    assert [rows.write(row) for row in range(3)] == [write_payload({"x": row}) for row in column]


@pytest.mark.parametrize(
    "columns",
    [
        {"x": [[1], [2]]},
        {"x": [b"1", b"2"]},
        {"x": [np.zeros(2), np.zeros(3)]},
        {"x": []},
        {1: [2]},
        {"": [2]},
        {},
    ],
    ids=["lists", "bytes", "arrays_that_differ", "no_rows", "a_number", "an_empty_key", "nothing"],
)
def test_columns_of_other_things_are_left_to_others(columns: dict[str, Any]) -> None:
    assert PayloadRows.of(columns) is None


def test_rows_of_which_one_cannot_be_json_are_refused() -> None:
    with pytest.raises(UnserializableResultError):
        PayloadRows.of({"x": ["fine", "\ud800"]})
