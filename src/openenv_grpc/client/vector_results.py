"""What a vector client returns: rewards, ends and infos of many environments as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from openenv_grpc.client.batches import numpy_module
from openenv_grpc.client.seats import Arrival

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray


class VectorStep(NamedTuple):
    """What a step led to, with one row an environment. It unpacks as Gymnasium's does."""

    observations: dict[str, Any]
    """Batches by the names of the observation's fields; `metadata` is among the infos."""
    rewards: NDArray[numpy.float64]
    """NaN where there is no verdict, which is not 0."""
    terminations: NDArray[numpy.bool_]
    """Episodes that are over by the rules of the environment."""
    truncations: NDArray[numpy.bool_]
    """Episodes that were cut short, also by the loss of a session."""
    infos: dict[str, Any]
    """By name an array, and under `_name` which of its rows count: `episode_id`, `rewards`,
    `metadata`, `error`, `final_obs`, `final_info`; and `env_id`, whose rows these are."""


def step_of(arrivals: Sequence[Arrival], observations: dict[str, Any]) -> VectorStep:
    """Puts answers together."""
    numpy = numpy_module()
    nan = numpy.nan
    infos = infos_of([arrival.info for arrival in arrivals])
    if any(arrival.error is not None or arrival.final is not None for arrival in arrivals):
        infos |= infos_of([_special(arrival) for arrival in arrivals])
    infos["env_id"] = numpy.array([arrival.seat.index for arrival in arrivals], numpy.int64)
    return VectorStep(
        observations=observations,
        rewards=numpy.array(
            [nan if arrival.reward is None else arrival.reward for arrival in arrivals],
            numpy.float64,
        ),
        terminations=numpy.array([arrival.terminated for arrival in arrivals], numpy.bool_),
        truncations=numpy.array([arrival.truncated for arrival in arrivals], numpy.bool_),
        infos=infos,
    )


def _special(arrival: Arrival) -> dict[str, Any]:
    """Returns what the infos tell where an episode ended or a step failed."""
    found: dict[str, Any] = {}
    if arrival.error is not None:
        found["error"] = arrival.told()
    if arrival.final is not None:
        found["final_obs"] = arrival.final.seen
        found["final_info"] = arrival.final.info
    return found


def infos_of(infos: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Makes of the infos of each environment one of all: by name an array, and a mask `_name`."""
    numpy = numpy_module()
    together: dict[str, Any] = {}
    if not any(infos):
        return together
    names = dict.fromkeys(name for info in infos for name in info)
    for name in names:
        mask = numpy.array([name in info for info in infos], numpy.bool_)
        if name in ("rewards", "metadata", "final_info"):
            together[name] = infos_of([info.get(name, {}) for info in infos])
        else:
            column = numpy.full(len(infos), None, object)
            for row, info in enumerate(infos):
                column[row] = info.get(name)
            values = [info[name] for info in infos if name in info]
            if {type(value) for value in values} <= {int, float, bool}:
                column = numpy.array([info.get(name, 0) for info in infos])
            together[name] = column
        together[f"_{name}"] = mask
    return together
