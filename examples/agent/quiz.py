"""A quiz: the agent hands in an answer, the trainer alone sees whether it was right."""

from __future__ import annotations

from typing import Any

from openenv_grpc import MCPEnvironment, Observation, ToolOutcome, tool

QUESTIONS = ("6 * 7", "17 + 4", "81 / 9")


class Question(Observation):
    """What is asked."""

    question: str = ""


class Quiz(MCPEnvironment):
    """Asks one question an episode."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any
    ) -> Question:
        self.question = self.rng.choice(QUESTIONS)
        self.hints = 0
        return Question(question=self.question)

    @tool
    def hint(self) -> str:
        """Gives a hint, which costs a quarter of the reward."""
        self.hints += 1
        return f"it is about {self._answer() + 1}"

    @tool
    def answer(self, number: int) -> ToolOutcome:
        """Hands in the answer. There is one try."""
        right = number == self._answer()
        reward = max(1.0 - self.hints / 4, 0.0) if right else 0.0
        return ToolOutcome("handed in", reward=reward, terminated=True)

    def _answer(self) -> int:
        left, operator, right = self.question.split()
        match operator:
            case "*":
                return int(left) * int(right)
            case "+":
                return int(left) + int(right)
            case _:
                return int(left) // int(right)
