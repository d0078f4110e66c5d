"""How long an environment's operations take, as messages carry it."""

from __future__ import annotations

from google.protobuf.duration_pb2 import Duration

from openenv_grpc.types import Budgets
from openenv_grpc.v1 import catalog_pb2
from openenv_grpc.wire.durations import fill_duration


def fill_budgets(message: catalog_pb2.Budgets, budgets: Budgets) -> None:
    """Fills the times that are known."""
    for seconds, field in (
        (budgets.reset_s, message.reset_timeout),
        (budgets.step_s, message.step_timeout),
        (budgets.close_s, message.close_timeout),
        (budgets.expected_reset_s, message.expected_reset_time),
        (budgets.expected_step_s, message.expected_step_time),
        (budgets.expected_close_s, message.expected_close_time),
    ):
        if seconds is not None:
            fill_duration(field, seconds)


_UNKNOWN = Budgets()


def read_budgets(message: catalog_pb2.Budgets) -> Budgets:
    """Reads the times. Those that make no sense count as unknown: nothing depends on them."""
    if not message.ByteSize():
        return _UNKNOWN
    times = {
        "reset_s": _seconds(message.HasField("reset_timeout"), message.reset_timeout),
        "step_s": _seconds(message.HasField("step_timeout"), message.step_timeout),
        "close_s": _seconds(message.HasField("close_timeout"), message.close_timeout),
    }
    expected = {
        "reset_s": _seconds(message.HasField("expected_reset_time"), message.expected_reset_time),
        "step_s": _seconds(message.HasField("expected_step_time"), message.expected_step_time),
        "close_s": _seconds(message.HasField("expected_close_time"), message.expected_close_time),
    }
    for name, longest_s in times.items():
        expected_s = expected[name]
        if longest_s is not None and expected_s is not None and expected_s > longest_s:
            expected[name] = None
    return Budgets(
        **times,
        expected_reset_s=expected["reset_s"],
        expected_step_s=expected["step_s"],
        expected_close_s=expected["close_s"],
    )


def _seconds(known: bool, duration: Duration) -> float | None:
    seconds = duration.ToNanoseconds() / 1e9
    return seconds if known and seconds > 0 else None
