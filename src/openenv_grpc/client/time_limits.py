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


@dataclass(slots=True)
class TimeLimits:
    """The limits of one session, in seconds."""

    message_timeout_s: float | None
    """What the client's user says, which goes before all else."""
    budgets: Budgets = field(default_factory=Budgets)
    """What the environment says, once that is known."""

    def reset_s(self, ahead: int = 0) -> float:
        """For a reset, behind as many operations that have no answer yet."""
        return self._limit(self.budgets.reset_s, ahead)

    def step_s(self, ahead: int = 0) -> float:
        """For a step, behind as many operations that have no answer yet."""
        return self._limit(self.budgets.step_s, ahead)

    @property
    def other_s(self) -> float:
        """For what takes no time itself, and may have to wait for a reset or step."""
        if self.message_timeout_s is not None:
            return self.message_timeout_s
        return max(MESSAGE_TIMEOUT_S, self._longest)

    @property
    def close_s(self) -> float:
        """For a close."""
        budget_s = self.budgets.close_s
        return CLOSE_TIMEOUT_S if budget_s is None else max(CLOSE_TIMEOUT_S, budget_s + SLACK_S)

    @property
    def _longest(self) -> float:
        known = [each for each in (self.budgets.reset_s, self.budgets.step_s) if each is not None]
        return max(known) + SLACK_S if known else 0.0

    def _limit(self, budget_s: float | None, ahead: int) -> float:
        if self.message_timeout_s is None and budget_s is not None:
            return budget_s + SLACK_S + ahead * self._longest
        return self.other_s
