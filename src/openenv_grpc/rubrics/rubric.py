"""A reward function with named parts, each of which remembers its last score."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

Score = float | Awaitable[float]
"""What scoring returns: a number, or the wait for one where something there is asynchronous."""

Hook = Callable[["Rubric", Any, Any, float], Any]
PreHook = Callable[["Rubric", Any, Any], Any]


class Rubric(ABC):
    """Scores what an action led to: write `forward`, call the object.

    A rubric that is assigned to an attribute becomes a part of that name. A call returns a number
    as long as `forward`, the parts that it calls and the hooks are synchronous, whether or not an
    event loop runs; otherwise it returns an awaitable.
    """

    last_score: float | None = None
    """What the last call returned; `None` before the first."""

    @abstractmethod
    def forward(self, action: Any, observation: Any) -> Any:
        """Returns the score; may be `async`."""

    def __call__(self, action: Any, observation: Any) -> Any:
        """Runs the hooks and `forward`, and keeps the score."""
        if self._has_async_hooks() or inspect.iscoroutinefunction(self.forward):
            return self._score_async(action, observation)
        for before in self._pre_hooks():
            before(self, action, observation)
        score = self.forward(action, observation)
        if inspect.isawaitable(score):
            return self._finish_async(action, observation, score)
        self.last_score = score
        for after in self._hooks():
            after(self, action, observation, score)
        return score

    async def _score_async(self, action: Any, observation: Any) -> float:
        for before in self._pre_hooks():
            await awaited(before(self, action, observation))
        return await self._finish_async(action, observation, self.forward(action, observation))

    async def _finish_async(self, action: Any, observation: Any, score: Any) -> float:
        self.last_score = number = await awaited(score)
        for after in self._hooks():
            await awaited(after(self, action, observation, number))
        return number  # type: ignore[no-any-return]  # `forward` returns numbers

    def is_async(self) -> bool:
        """Tells whether a call returns an awaitable, as far as that can be told without one."""
        return (
            self._has_async_hooks()
            or inspect.iscoroutinefunction(self.forward)
            or any(child.is_async() for child in self.children())
        )

    def register_forward_hook(self, hook: Hook) -> None:
        """Has `hook(rubric, action, observation, score)` called after each scoring."""
        self._hooks().append(hook)

    def register_forward_pre_hook(self, hook: PreHook) -> None:
        """Has `hook(rubric, action, observation)` called before each scoring."""
        self._pre_hooks().append(hook)

    def children(self) -> Iterator[Rubric]:
        """Yields the parts."""
        yield from self._children().values()

    def named_children(self) -> Iterator[tuple[str, Rubric]]:
        """Yields the parts with their names."""
        yield from self._children().items()

    def rubrics(self) -> Iterator[Rubric]:
        """Yields the parts and theirs, depth first."""
        for _, rubric in self.named_rubrics():
            yield rubric

    def named_rubrics(self, prefix: str = "") -> Iterator[tuple[str, Rubric]]:
        """Yields the parts and theirs, depth first, with their dotted paths."""
        for name, child in self._children().items():
            path = f"{prefix}.{name}" if prefix else name
            yield path, child
            yield from child.named_rubrics(path)

    def get_rubric(self, path: str) -> Rubric:
        """Returns the part at a dotted path.

        Raises:
            KeyError: there is none.
        """
        rubric = self
        for name in path.split("."):
            try:
                rubric = rubric._children()[name]
            except KeyError:
                raise KeyError(f"there is no rubric at {path!r}") from None
        return rubric

    def reset(self) -> Any:  # noqa: B027  # most rubrics have nothing to forget
        """Forgets what belongs to one episode. Does nothing by default; may be `async`."""

    def state_dict(self) -> dict[str, Any]:
        """Returns the settings that a checkpoint keeps."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:  # noqa: B027  # and none to keep
        """Takes settings from a checkpoint."""

    def __setattr__(self, name: str, value: object) -> None:
        if isinstance(value, Rubric):
            self._children()[name] = value
        else:
            self._children().pop(name, None)
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        self._children().pop(name, None)
        super().__delattr__(name)

    # Made when first asked for, so that subclasses need not call `super().__init__()`.

    def _children(self) -> dict[str, Rubric]:
        children: dict[str, Rubric] = self.__dict__.setdefault("_rubric_children", {})
        return children

    def _hooks(self) -> list[Hook]:
        hooks: list[Hook] = self.__dict__.setdefault("_forward_hooks", [])
        return hooks

    def _pre_hooks(self) -> list[PreHook]:
        hooks: list[PreHook] = self.__dict__.setdefault("_forward_pre_hooks", [])
        return hooks

    def _has_async_hooks(self) -> bool:
        return any(map(inspect.iscoroutinefunction, [*self._pre_hooks(), *self._hooks()]))


async def awaited(value: Any) -> Any:
    """Waits for a value where there is something to wait for."""
    return await value if inspect.isawaitable(value) else value
