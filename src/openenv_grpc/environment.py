"""What an environment is: the class that its author writes.

A whole one:

    class Guess(Environment[GuessAction, GuessObservation, State]):
        def reset(self, seed=None, episode_id=None):
            self.secret = self.rng.randrange(100)
            return GuessObservation(hint="guess")

        def step(self, action, timeout_s=None):
            won = action.number == self.secret
            return GuessObservation(hint="yes" if won else "no", reward=float(won), done=won)
"""

from __future__ import annotations

import asyncio
import inspect
import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Generic, Protocol, TypedDict, TypeVar, runtime_checkable

from openenv_grpc.own_loop import loop_is_running
from openenv_grpc.rubrics import Rubric
from openenv_grpc.rubrics.rubric import awaited
from openenv_grpc.transforms import Transform
from openenv_grpc.types import (
    Action,
    Budgets,
    EnvironmentMetadata,
    JsonValue,
    Observation,
    State,
)

ActT = TypeVar("ActT", bound=Action)
ObsT = TypeVar("ObsT", bound=Observation)
StateT = TypeVar("StateT", bound=State)


class EpisodeRandom(random.Random):
    """The randomness of an environment whose author has no source of his own."""


@dataclass(slots=True)
class EpisodeBooks:
    """What is kept for an environment whose author does not keep it. The server writes it."""

    episode_id: str | None = None
    step_count: int = 0
    seed: int | float | str | None = None
    """What the episode's source of randomness starts from; `None` for anywhere."""


class Environment(ABC, Generic[ActT, ObsT, StateT]):
    """Base class of environments. Subclasses need not call `super().__init__()`.

    `reset` and `step` are handed only those keywords that they declare. An environment that
    overrides `reset_async` or `step_async` is awaited on the event loop; others run on a thread of
    their own, constructor and `close` included.
    """

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = False
    """Whether several instances can be used side by side."""
    REQUIRES_SINGLE_THREAD_EXECUTOR: ClassVar[bool] = False
    """Whether all instances have to run on one and the same thread."""
    ISOLATION: ClassVar[str] = "thread"
    """Where an instance runs: `thread`, `process`, or `shared` or `inline` if it never blocks."""
    REQUIRES_RESET: ClassVar[bool] = False
    """Whether the server refuses steps before a reset and after the episode's end."""
    BUDGETS: ClassVar[Budgets] = Budgets()
    """How long its operations take, and may take."""
    SNAPSHOT_FIELDS: ClassVar[Sequence[str] | None] = None
    """Names of the attributes that are all of its state, if they are data: the server can save and
    fork it then. Empty where there is no state beyond what the server keeps. Others write
    `snapshot` and `restore`, see `SnapshotProvider`."""

    transform: Transform[ObsT] | None = None
    rubric: Rubric | None = None
    _openenv_books: EpisodeBooks | None = None  # set by the server; the name is unlikely to clash

    def __init__(
        self, transform: Transform[ObsT] | None = None, rubric: Rubric | None = None
    ) -> None:
        self.transform = transform
        self.rubric = rubric

    @abstractmethod
    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> ObsT:
        """Starts an episode and returns what is seen first."""

    @abstractmethod
    def step(self, action: ActT, timeout_s: float | None = None, **kwargs: Any) -> ObsT:
        """Applies an action and returns what it led to."""

    async def reset_async(
        self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any
    ) -> ObsT:
        """Does what `reset` does. Override it where that has to wait."""
        return self.reset(seed=seed, episode_id=episode_id, **kwargs)

    async def step_async(self, action: ActT, timeout_s: float | None = None, **kwargs: Any) -> ObsT:
        """Does what `step` does. Override it where that has to wait."""
        return self.step(action, timeout_s=timeout_s, **kwargs)

    @property
    def state(self) -> StateT:
        """What the environment tells a trainer of itself: by default the episode and its steps."""
        books = self._openenv_books or EpisodeBooks()
        # A class with a state type of its own overrides this.
        return State(episode_id=books.episode_id, step_count=books.step_count)  # type: ignore[return-value]

    @cached_property
    def rng(self) -> random.Random:
        """Source of randomness. The server renews it at each reset, seeded as the reset is."""
        # Made when it is first asked for: it takes 3 KiB, which most environments never need.
        return EpisodeRandom(None if self._openenv_books is None else self._openenv_books.seed)

    def get_metadata(self) -> EnvironmentMetadata:
        """Describes the environment for people."""
        name = type(self).__name__
        return EnvironmentMetadata(name=name, description=f"{name} environment", version="1.0.0")

    def close(self) -> None:
        """Lets go of what the instance holds. Called once, at the end of its session."""

    def render_web(self, observation: dict[str, JsonValue]) -> str | None:
        """Renders an observation as HTML; `None` where there is nothing special to show."""
        return None

    def web_actions(
        self, observation: dict[str, JsonValue]
    ) -> list[tuple[str, dict[str, JsonValue]]]:
        """Lists actions to be offered as buttons: label and action."""
        return []

    def _apply_transform(self, observation: ObsT) -> ObsT:
        """Returns the observation as the transform, if there is one, leaves it."""
        return observation if self.transform is None else self.transform(observation)

    def _apply_rubric(self, action: ActT, observation: ObsT) -> float:
        """Returns the rubric's score, 0.0 without a rubric.

        A rubric that is asynchronous is run to its end.

        Raises:
            RuntimeError: it is asynchronous, and an event loop runs on this thread.
        """
        if self.rubric is None:
            return 0.0
        if self.rubric.is_async():
            _refuse_if_a_loop_runs("_apply_rubric")
        return float(_waited_for(self.rubric(action, observation)))

    async def _apply_rubric_async(self, action: ActT, observation: ObsT) -> float:
        """Returns the rubric's score, 0.0 without a rubric."""
        if self.rubric is None:
            return 0.0
        return float(await awaited(self.rubric(action, observation)))

    def _reset_rubric(self) -> None:
        """Has the rubric forget the last episode.

        Raises:
            RuntimeError: its `reset` is asynchronous, and an event loop runs on this thread.
        """
        if self.rubric is None:
            return
        if inspect.iscoroutinefunction(self.rubric.reset):
            _refuse_if_a_loop_runs("_reset_rubric")
        _waited_for(self.rubric.reset())

    async def _reset_rubric_async(self) -> None:
        """Has the rubric forget the last episode."""
        if self.rubric is not None:
            await awaited(self.rubric.reset())


def _refuse_if_a_loop_runs(name: str) -> None:
    if loop_is_running():
        raise RuntimeError(
            f"the rubric is asynchronous: use `await self.{name}_async(...)` in asynchronous code"
        )


def _waited_for(value: Any) -> Any:
    return asyncio.run(awaited(value)) if inspect.isawaitable(value) else value


@runtime_checkable
class TaskProvider(Protocol):
    """What an environment with a catalogue of tasks offers. Each method may be asynchronous.

    Methods have no side effects and work on an instance that was not reset.
    """

    def list_splits(self) -> Any:
        """Lists the splits: names, or mappings with `name` and `type`."""
        ...

    def list_tasks(self, split: str) -> Any:
        """Lists the tasks of a split."""
        ...

    def num_tasks(self, split: str) -> Any:
        """Counts the tasks of a split."""
        ...

    def get_task(self, split: str, index: int) -> Any:
        """Returns one task. Raises `IndexError` where there is none."""
        ...

    def get_task_range(self, split: str, start: int | None = None, stop: int | None = None) -> Any:
        """Returns the tasks from `start` up to `stop`."""
        ...


@runtime_checkable
class SnapshotProvider(Protocol):
    """What an environment offers that saves itself. Each method may be asynchronous.

    An environment without them whose state is data names that in `SNAPSHOT_FIELDS`.
    """

    def snapshot(self) -> Any:
        """Returns the state as bytes, which the server keeps. Changes nothing."""
        ...

    def restore(self, snapshot: bytes) -> Any:
        """Takes the state that another instance returned. Called once, after the constructor."""
        ...


class Message(TypedDict):
    """One message of a conversation."""

    role: str
    content: str


class ModelTokenizer(Protocol):
    """What environments that deal in tokens ask of a tokenizer."""

    def apply_chat_template(
        self,
        conversation: list[Message],
        tokenize: bool = True,
        return_tensors: str | None = None,
        **kwargs: Any,
    ) -> Any:
        """Turns a conversation into tokens, or into text."""
        ...

    def decode(self, token_ids: Any, skip_special_tokens: bool = False, **kwargs: Any) -> str:
        """Turns tokens into text."""
        ...
