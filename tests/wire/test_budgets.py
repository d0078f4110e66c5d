"""Budgets, to messages and back."""

from __future__ import annotations

import pytest

from openenv_grpc.types import Budgets
from openenv_grpc.v1 import catalog_pb2
from openenv_grpc.wire.budgets import fill_budgets, read_budgets


@pytest.mark.parametrize(
    "budgets",
    [
        Budgets(),
        Budgets(step_s=0.25),
        Budgets(
            reset_s=300,
            step_s=90.5,
            close_s=1,
            expected_reset_s=20,
            expected_step_s=0.001,
            expected_close_s=1,
        ),
    ],
    ids=["none", "one", "all"],
)
def test_budgets_come_back_as_they_were(budgets: Budgets) -> None:
    message = catalog_pb2.Budgets()
    fill_budgets(message, budgets)
    assert read_budgets(message) == budgets


def test_times_that_make_no_sense_count_as_unknown() -> None:
    message = catalog_pb2.Budgets()
    message.step_timeout.seconds = 1
    message.expected_step_time.seconds = 2
    message.reset_timeout.seconds = -1
    message.close_timeout.SetInParent()
    assert read_budgets(message) == Budgets(step_s=1)
