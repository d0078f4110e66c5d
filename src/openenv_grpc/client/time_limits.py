"""How long a client waits for an answer, where a call sets no limit of its own."""

from __future__ import annotations

from dataclasses import dataclass, field

from openenv_grpc.types import Budgets

MESSAGE_TIMEOUT_S = 60.0
"""Where neither the client's user nor the environment says anything."""

CLOSE_TIMEOUT_S = 10.0
"""How long the server may take to close a session, unless the environment says that it may take
longer, before the client stops waiting for it."""

SLACK_S = 5.0
"""How much longer than the environment may take the client waits: for the way there and back, and
for a server that is busy."""


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """The limits of one session, in seconds. Each step asks, so they are worked out once."""

    message_timeout_s: float | None
    """What the client's user says, which goes before all else."""
    budgets: Budgets = field(default_factory=Budgets)
    """What the environment says, once that is known."""
    other_s: float = field(init=False)
    """For what takes no time itself, and may have to wait for a reset or step."""
    _longest_s: float = field(init=False)

    def __post_init__(self) -> None:
        """Works out what does not depend on the call."""
        known = [each for each in (self.budgets.reset_s, self.budgets.step_s) if each is not None]
        longest_s = max(known) + SLACK_S if known else 0.0
        other_s = self.message_timeout_s
        if other_s is None:
            other_s = max(MESSAGE_TIMEOUT_S, longest_s)
        object.__setattr__(self, "_longest_s", longest_s)
        object.__setattr__(self, "other_s", other_s)

    def reset_s(self, ahead: int = 0) -> float:
        """For a reset, behind as many operations that have no answer yet."""
        return self._limit(self.budgets.reset_s, ahead)

    def step_s(self, ahead: int = 0) -> float:
        """For a step, behind as many operations that have no answer yet."""
        return self._limit(self.budgets.step_s, ahead)

    @property
    def close_s(self) -> float:
        """For a close."""
        budget_s = self.budgets.close_s
        return CLOSE_TIMEOUT_S if budget_s is None else max(CLOSE_TIMEOUT_S, budget_s + SLACK_S)

    def _limit(self, budget_s: float | None, ahead: int) -> float:
        if self.message_timeout_s is None and budget_s is not None:
            return budget_s + SLACK_S + ahead * self._longest_s
        return self.other_s
