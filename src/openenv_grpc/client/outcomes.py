"""What operations led to, as it is read from whatever a server speaks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from openenv_grpc.wire.alike import AlikePayload


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The verdict on an episode as it stands."""

    reward: float | None = None
    """Earned and not yet reported by a step; `None` where there is no verdict, which is not 0."""
    rewards: dict[str, float] = field(default_factory=dict)
    """Parts of the reward by name."""
    terminated: bool = False
    truncated: bool = False

    @property
    def done(self) -> bool:
        """Whether the episode is over."""
        return self.terminated or self.truncated


Seen = dict[str, Any] | AlikePayload
"""An observation's fields, or how they came where many are alike."""

Observed = tuple[Seen, float | None, bool, bool, dict[str, Any]]
"""What a step or reset led to: observation, reward, terminated, truncated, info."""


def fields_of(seen: Seen) -> dict[str, Any]:
    """Returns the fields of an observation. What is alike has no metadata."""
    if isinstance(seen, dict):
        return seen
    fields = seen.fields()
    fields.pop("metadata", None)
    return fields


def payload_of(observed: Observed) -> dict[str, Any]:
    """Makes the payload that `EnvClient._parse_result` takes."""
    seen, reward, terminated, truncated, info = observed
    observation = fields_of(seen)
    payload: dict[str, Any] = {
        "observation": observation,
        "reward": reward,
        "done": terminated or truncated,
        "terminated": terminated,
        "truncated": truncated,
        "info": info,
    }
    metadata = observation.get("metadata")
    if metadata:
        payload["metadata"] = metadata
    return payload
