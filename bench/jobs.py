"""What a load is asked to do: on both sides of its pipe, in every environment of Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Measured = dict[str, float]
"""Figures by name, in the unit that the name ends with."""

ACTIONS: dict[str, dict[str, Any]] = {
    "tiny": {"message": "m" * 50},
    "array": {"values": [0.5] * 4},
    "burn": {"message": "burn"},
    "number": {"action": 1},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One load on one server."""

    mode: str
    """A name of `bench.modes.MODES`."""
    url: str
    server: int
    """The server's process; 0 if there is none."""
    sessions: int = 1
    seconds: float = 1.0
    warm_up_s: float = 0.3
    action: str = "tiny"
    """A name of `ACTIONS`."""
    size_bytes: int = 0
    """How long a text the observation is asked to have; 0 to send `action` as it is."""
    pause_s: float = 0.0
    """How long light sessions wait between their steps, beside one that computes."""

    def content(self) -> dict[str, Any]:
        """Returns the action that is sent."""
        return {"message": str(self.size_bytes)} if self.size_bytes else ACTIONS[self.action]
