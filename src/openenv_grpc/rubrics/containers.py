"""Rubrics made of rubrics: in order, past a threshold, weighted, listed and named."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from openenv_grpc.rubrics.rubric import Rubric, Score, awaited


class RubricList(Rubric):
    """Rubrics by number. A rubric that owns the list decides what to make of them."""

    def __init__(self, rubrics: Iterable[Rubric] | None = None) -> None:
        self._listed: list[Rubric] = []
        self.extend(rubrics or ())

    def forward(self, action: Any, observation: Any) -> Any:
        """Refuses: a list says nothing of how its rubrics are combined."""
        raise NotImplementedError(
            f"{type(self).__name__} has no score of its own: call its rubrics in the `forward` of "
            "the rubric that owns it"
        )

    def append(self, rubric: Rubric) -> None:
        """Adds a rubric at the end."""
        setattr(self, f"rubric_{len(self._listed)}", rubric)
        self._listed.append(rubric)

    def extend(self, rubrics: Iterable[Rubric]) -> None:
        """Adds rubrics at the end."""
        for rubric in rubrics:
            self.append(rubric)

    def __len__(self) -> int:
        return len(self._listed)

    def __getitem__(self, index: int) -> Rubric:
        return self._listed[index]

    def __iter__(self) -> Iterator[Rubric]:
        return iter(self._listed)


class Sequential(RubricList):
    """Rubrics in order: 0.0 as soon as one scores 0, else the last one's score; 1.0 if empty."""

    def __init__(self, *rubrics: Rubric) -> None:
        super().__init__(rubrics)

    def forward(self, action: Any, observation: Any) -> Score:
        """Scores one rubric after the other."""
        score: Any = 1.0
        remaining = iter(self)
        for rubric in remaining:
            score = rubric(action, observation)
            if inspect.isawaitable(score):
                return self._go_on(action, observation, score, remaining)
            if score == 0.0:
                return 0.0
        return float(score)

    async def _go_on(
        self, action: Any, observation: Any, score: Any, remaining: Iterator[Rubric]
    ) -> float:
        number = await awaited(score)
        for rubric in remaining:
            if number == 0.0:
                return 0.0
            number = await awaited(rubric(action, observation))
        return float(number)


class Gate(Rubric):
    """Another rubric's score if that reaches a threshold, else 0.0."""

    def __init__(self, rubric: Rubric, threshold: float = 1.0) -> None:
        self.rubric = rubric
        self.threshold = threshold

    def forward(self, action: Any, observation: Any) -> Score:
        """Scores and compares."""
        score = self.rubric(action, observation)
        return self._later(score) if inspect.isawaitable(score) else self._passed(score)

    async def _later(self, score: Any) -> float:
        return self._passed(await score)

    def _passed(self, score: float) -> float:
        return score if score >= self.threshold else 0.0


class WeightedSum(RubricList):
    """The weighted sum of several scores. Those that take time are awaited together."""

    def __init__(self, rubrics: Sequence[Rubric], weights: Sequence[float]) -> None:
        if len(rubrics) != len(weights):
            raise ValueError(f"there are {len(rubrics)} rubrics but {len(weights)} weights")
        if abs(sum(weights) - 1.0) > 1e-6:
            raise ValueError(f"the weights must sum to 1.0, not {sum(weights)}")
        super().__init__(rubrics)
        self._weights = list(weights)

    @property
    def weights(self) -> list[float]:
        """The weights, in the order of the rubrics."""
        return list(self._weights)

    def forward(self, action: Any, observation: Any) -> Score:
        """Scores every rubric and sums up."""
        scores = [rubric(action, observation) for rubric in self]
        if any(map(inspect.isawaitable, scores)):
            return self._later(scores)
        return self._sum(scores)

    async def _later(self, scores: list[Any]) -> float:
        return self._sum(await asyncio.gather(*map(awaited, scores)))

    def _sum(self, scores: Sequence[float]) -> float:
        return sum(score * weight for score, weight in zip(scores, self._weights, strict=True))


class RubricDict(Rubric):
    """Rubrics by name. A rubric that owns the dictionary decides what to make of them."""

    def __init__(self, rubrics: Mapping[str, Rubric] | None = None) -> None:
        self.update(rubrics or {})

    def forward(self, action: Any, observation: Any) -> Any:
        """Refuses: a dictionary says nothing of how its rubrics are combined."""
        raise NotImplementedError(
            f"{type(self).__name__} has no score of its own: call its rubrics in the `forward` of "
            "the rubric that owns it"
        )

    # The keys are names of parts but not attributes, which a key such as "reset" would hide.

    def __setitem__(self, key: str, rubric: Rubric) -> None:
        self._children()[key] = rubric

    def __getitem__(self, key: str) -> Rubric:
        return self._children()[key]

    def __contains__(self, key: object) -> bool:
        return key in self._children()

    def __len__(self) -> int:
        return len(self._children())

    def __iter__(self) -> Iterator[str]:
        return iter(self._children())

    def keys(self) -> Iterator[str]:
        """Yields the names."""
        return iter(self._children())

    def values(self) -> Iterator[Rubric]:
        """Yields the rubrics."""
        return self.children()

    def items(self) -> Iterator[tuple[str, Rubric]]:
        """Yields names and rubrics."""
        return self.named_children()

    def update(self, rubrics: Mapping[str, Rubric]) -> None:
        """Adds rubrics, or puts them in the place of others."""
        self._children().update(rubrics)
