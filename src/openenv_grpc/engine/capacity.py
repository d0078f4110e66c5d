"""Why an opening gets no slot, and what to do: the errors of the queue."""

from __future__ import annotations

from openenv_grpc.crew import Crew
from openenv_grpc.environment_spec import EnvironmentSpec
from openenv_grpc.errors import (
    DrainingError,
    InvalidRequestError,
    OpenEnvError,
    OperationCancelledError,
    SessionCapacityError,
)

RETRY_DELAY_S = 1.0
"""When another try may help, as far as a server can know."""


def full(spec: EnvironmentSpec, active: int) -> OpenEnvError:
    """All slots are taken, and the opening does not wait."""
    return SessionCapacityError(
        f"Server at capacity: {active}/{spec.session_limit} sessions active. "
        f"Cannot accept new connections.{_one_at_a_time(spec)}",
        retry_delay_s=RETRY_DELAY_S,
        metadata=_facts(spec, active),
    )


def queue_full(spec: EnvironmentSpec, active: int, queued: int) -> OpenEnvError:
    """So many wait already that no more may."""
    return SessionCapacityError(
        f"{active} of {spec.session_limit} sessions are active, and {queued} wait for a slot, "
        "which is as many as may (--max-queued); try again later, or elsewhere"
        f"{_one_at_a_time(spec)}",
        retry_delay_s=RETRY_DELAY_S,
        metadata={**_facts(spec, active), "queued_sessions": str(queued)},
    )


def waited_too_long(spec: EnvironmentSpec, active: int, limit_s: float) -> OpenEnvError:
    """No slot came free in time."""
    return SessionCapacityError(
        f"no slot came free within {limit_s:g} seconds: {active} of {spec.session_limit} sessions "
        "are active; try again later, or wait for longer (queue_timeout, --queue-timeout)"
        f"{_one_at_a_time(spec)}",
        retry_delay_s=RETRY_DELAY_S,
        metadata=_facts(spec, active),
    )


def held(spec: EnvironmentSpec, active: int, own: int, wanted: int) -> OpenEnvError:
    """The slots are taken by who waits for them, and idle: there is nothing to wait for.

    `own` is how many sessions its connection holds, `wanted` how many it waits for.
    """
    return SessionCapacityError(
        f"this connection holds {own} of {spec.session_limit} sessions, all idle, and waits for "
        f"{wanted} more, which would never come; close some first, or serve with --max-sessions "
        f"{own + wanted}{_one_at_a_time(spec)}",
        metadata={**_facts(spec, active), "held_sessions": str(own)},
    )


def group_too_large(spec: EnvironmentSpec, size: int, crew: Crew | None) -> OpenEnvError:
    """A group will never have its slots."""
    limit = spec.session_limit
    where, needed = ("", size) if crew is None else (" in each worker", size * crew.size)
    return InvalidRequestError(
        f"a group of {size} opens never fits: at most {limit} sessions of {spec.name} may be open "
        f"at once{where}; open fewer together, or serve with --max-sessions {needed}"
        f"{_one_at_a_time(spec)}",
        metadata={"max_sessions": str(limit)},
    )


def group_of_another_size(group: str, size: int, other: int) -> OpenEnvError:
    """Opens of one group differ on how many they are."""
    return InvalidRequestError(
        f"the group {group!r} has {other} opens, said one before, not {size}; say the same in each"
    )


def group_incomplete(group: str, size: int, count: int, limit_s: float) -> OpenEnvError:
    """Not all opens of a group came in time."""
    return SessionCapacityError(
        f"{count} opens of the group {group!r} came within {limit_s:g} seconds, and it has {size}; "
        "send all of them"
    )


def group_left(group: str) -> OpenEnvError:
    """Another of the group waits no more."""
    return OperationCancelledError(
        f"another open of the group {group!r} does not wait any more, and the group gets its slots "
        "whole or not at all; open it anew"
    )


def too_often(delay_s: float) -> OpenEnvError:
    """A peer opens sessions faster than it may."""
    return SessionCapacityError(
        "this address opens sessions faster than it may (--opens-per-minute); try again in "
        f"{delay_s:.3g} seconds",
        retry_delay_s=delay_s,
    )


def draining() -> OpenEnvError:
    """The server takes no sessions any more."""
    return DrainingError("the server is about to stop and opens no sessions")


def _one_at_a_time(spec: EnvironmentSpec) -> str:
    """Says what allows more sessions of a class that does not say that it supports several."""
    if spec.concurrent_sessions:
        return ""
    return (
        f" (one session at a time is what {spec.factory_name} supports: set "
        "SUPPORTS_CONCURRENT_SESSIONS = True on its class, if instances share no state, for more)"
    )


def _facts(spec: EnvironmentSpec, active: int) -> dict[str, str]:
    return {"active_sessions": str(active), "max_sessions": str(spec.session_limit)}
