"""Collection of garbage, put off: when it is on again, and what it looks at then."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from openenv_grpc.collecting import collection_put_off


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    yield
    gc.enable()
    gc.unfreeze()


def test_nothing_is_collected_in_the_block_and_again_after_it() -> None:
    with collection_put_off():
        assert not gc.isenabled()

    assert gc.isenabled()


def test_what_lives_at_its_end_is_looked_at_no_more() -> None:
    gc.unfreeze()

    with collection_put_off():
        made = [[] for _ in range(100)]

    assert gc.get_freeze_count() > len(made)


def test_an_exception_turns_it_on_again() -> None:
    with pytest.raises(ValueError, match="for a test"), collection_put_off():
        raise ValueError("for a test")

    assert gc.isenabled()


def test_it_stays_off_where_somebody_turned_it_off() -> None:
    gc.disable()

    with collection_put_off():
        pass

    assert not gc.isenabled()
