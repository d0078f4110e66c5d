"""UUIDs: that they are such, and that no two are the same, whoever makes them."""

from __future__ import annotations

import subprocess
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv_grpc.ids import random_uuid, written

FORKED = """
import os
from openenv_grpc.ids import random_uuid
random_uuid()
inner, outer = os.pipe()
if os.fork() == 0:
    os.write(outer, random_uuid().encode())
    os._exit(0)
os.wait()
print(os.read(inner, 36).decode() != random_uuid())
"""


def test_an_id_is_a_random_uuid() -> None:
    made = [random_uuid() for _ in range(1_000)]

    assert len(set(made)) == 1_000
    assert {(uuid.UUID(each).version, uuid.UUID(each).variant) for each in made} == {
        (4, uuid.RFC_4122)
    }


@given(st.uuids())
def test_a_number_is_written_as_uuids_are(number: uuid.UUID) -> None:
    assert written(number.int) == str(number)


def test_threads_make_no_id_twice() -> None:
    with ThreadPoolExecutor(8) as pool:
        made = [
            each
            for some in pool.map(lambda _: [random_uuid() for _ in range(1_000)], range(8))
            for each in some
        ]

    assert len(set(made)) == 8_000


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_a_forked_process_makes_others() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=60, check=True
    )

    assert ended.stdout == "True\n"
