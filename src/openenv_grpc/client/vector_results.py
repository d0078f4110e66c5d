"""What a vector client returns: rewards, ends and infos of many environments as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from openenv_grpc.client.batches import numpy_module
from openenv_grpc.client.seats import Turn

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


def step_of(turns: Sequence[Turn], observations: dict[str, Any]) -> VectorStep:
    """Puts answers together."""
    numpy = numpy_module()
    nan = numpy.nan
    infos = infos_of([turn.info for turn in turns])
    if any(turn.error is not None or turn.final is not None for turn in turns):
        infos |= infos_of([_special(turn) for turn in turns])
    infos["env_id"] = numpy.array([turn.seat.index for turn in turns], numpy.int64)
    return VectorStep(
        observations=observations,
        rewards=numpy.array(
            [nan if turn.reward is None else turn.reward for turn in turns],
            numpy.float64,
        ),
        terminations=numpy.array([turn.terminated for turn in turns], numpy.bool_),
        truncations=numpy.array([turn.truncated for turn in turns], numpy.bool_),
        infos=infos,
    )


def _special(turn: Turn) -> dict[str, Any]:
    """Returns what the infos tell where an episode ended or a step failed."""
    found: dict[str, Any] = {}
    if turn.error is not None:
        found["error"] = turn.told()
    if turn.final is not None:
        found["final_obs"] = turn.final.seen
        found["final_info"] = turn.final.info
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
