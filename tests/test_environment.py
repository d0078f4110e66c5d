"""What an environment's author gets from the base class."""

from __future__ import annotations

import random
from typing import Any

import pytest

from openenv_grpc.environment import Environment, EpisodeBooks, TaskProvider
from openenv_grpc.rubrics import Rubric
from openenv_grpc.transforms import Transform
from openenv_grpc.types import Action, Budgets, Observation, State


class Guess(Action):
    number: int


class Hint(Observation):
    text: str


class Careless(Environment[Guess, Hint, State]):
    """As short as an environment can be; it does not call `super().__init__()`."""

    def __init__(self) -> None:
        self.secret = 7

    def reset(self, seed: int | None = None, **kwargs: Any) -> Hint:
        return Hint(text="guess")

    def step(self, action: Guess, timeout_s: float | None = None, **kwargs: Any) -> Hint:
        won = action.number == self.secret
        return Hint(text="yes" if won else "no", reward=float(won), done=won)


class Careful(Careless):
    def __init__(
        self, transform: Transform[Hint] | None = None, rubric: Rubric | None = None
    ) -> None:
        Environment.__init__(self, transform=transform, rubric=rubric)
        self.secret = 7


class Shout(Transform[Hint]):
    def __call__(self, observation: Hint) -> Hint:
        return observation.model_copy(update={"text": observation.text.upper()})


class Length(Rubric):
    forgotten = 0

    def forward(self, action: Any, observation: Any) -> float:
        return float(len(observation.text))

    def reset(self) -> None:
        self.forgotten += 1


class SlowLength(Rubric):
    forgotten = 0

    async def forward(self, action: Any, observation: Any) -> float:
        return float(len(observation.text))

    async def reset(self) -> None:
        self.forgotten += 1


GUESS, HINT = Guess(number=1), Hint(text="no")


def test_an_environment_without_reset_or_step_cannot_be_made() -> None:
    class Half(Environment[Guess, Hint, State]):
        def reset(self, **kwargs: Any) -> Hint:
            return HINT

    with pytest.raises(TypeError, match="abstract"):
        Half()  # type: ignore[abstract]  # that is the point


def test_flags_have_the_defaults_of_the_reference_and_ours() -> None:
    assert Environment.SUPPORTS_CONCURRENT_SESSIONS is False
    assert Environment.REQUIRES_SINGLE_THREAD_EXECUTOR is False
    assert Environment.ISOLATION == "thread"
    assert Environment.REQUIRES_RESET is False
    assert Budgets() == Environment.BUDGETS


async def test_the_asynchronous_calls_do_what_the_blocking_ones_do() -> None:
    environment = Careless()

    assert (await environment.reset_async(seed=1)).text == "guess"
    assert (await environment.step_async(Guess(number=7))).done


@pytest.mark.parametrize("cls", [Careless, Careful])
async def test_an_environment_without_transform_and_rubric_changes_and_scores_nothing(
    cls: type[Careless],
) -> None:
    environment = cls()

    assert environment._apply_transform(HINT) is HINT
    assert environment._apply_rubric(GUESS, HINT) == 0.0
    assert await environment._apply_rubric_async(GUESS, HINT) == 0.0
    environment._reset_rubric()
    await environment._reset_rubric_async()
    environment.close()


def test_the_transform_is_applied() -> None:
    assert Careful(transform=Shout())._apply_transform(HINT).text == "NO"


@pytest.mark.parametrize("rubric", [Length(), SlowLength()], ids=["blocking", "asynchronous"])
def test_blocking_code_gets_a_number_of_any_rubric(rubric: Rubric) -> None:
    assert Careful(rubric=rubric)._apply_rubric(GUESS, HINT) == 2.0


@pytest.mark.parametrize("rubric", [Length(), SlowLength()], ids=["blocking", "asynchronous"])
async def test_asynchronous_code_gets_a_number_of_any_rubric(rubric: Rubric) -> None:
    assert await Careful(rubric=rubric)._apply_rubric_async(GUESS, HINT) == 2.0


async def test_a_blocking_rubric_can_be_applied_while_a_loop_runs() -> None:
    assert Careful(rubric=Length())._apply_rubric(GUESS, HINT) == 2.0


async def test_an_asynchronous_rubric_is_refused_by_blocking_calls_while_a_loop_runs() -> None:
    environment = Careful(rubric=SlowLength())

    with pytest.raises(RuntimeError, match=r"await self\._apply_rubric_async"):
        environment._apply_rubric(GUESS, HINT)
    with pytest.raises(RuntimeError, match=r"await self\._reset_rubric_async"):
        environment._reset_rubric()


async def test_the_rubric_is_reset() -> None:
    blocking, slow = Length(), SlowLength()

    Careful(rubric=blocking)._reset_rubric()
    await Careful(rubric=blocking)._reset_rubric_async()
    await Careful(rubric=slow)._reset_rubric_async()

    assert (blocking.forgotten, slow.forgotten) == (2, 1)


def test_an_asynchronous_reset_of_the_rubric_is_run_by_the_blocking_call() -> None:
    slow = SlowLength()

    Careful(rubric=slow)._reset_rubric()

    assert slow.forgotten == 1


def test_the_state_is_that_of_the_books_unless_the_author_keeps_one() -> None:
    environment = Careless()

    assert environment.state == State()
    environment._openenv_books = EpisodeBooks(episode_id="e1", step_count=3)
    assert environment.state == State(episode_id="e1", step_count=3)


def test_the_source_of_randomness_can_be_replaced() -> None:
    environment = Careless()

    assert environment.rng is environment.rng
    environment.rng = random.Random(5)
    assert environment.rng.random() == random.Random(5).random()


def test_metadata_come_from_the_name_of_the_class() -> None:
    metadata = Careless().get_metadata()

    assert (metadata.name, metadata.version) == ("Careless", "1.0.0")
    assert metadata.description == "Careless environment"


def test_nothing_is_rendered_and_no_actions_are_offered_by_default() -> None:
    environment = Careless()

    assert environment.render_web({}) is None
    assert environment.web_actions({}) == []


def test_an_environment_with_all_task_methods_is_a_task_provider() -> None:
    class WithTasks(Careless):
        def list_splits(self) -> list[str]:
            return ["train"]

        def list_tasks(self, split: str) -> list[str]:
            return ["a"]

        def num_tasks(self, split: str) -> int:
            return 1

        def get_task(self, split: str, index: int) -> str:
            return "a"

        def get_task_range(
            self, split: str, start: int | None = None, stop: int | None = None
        ) -> list[str]:
            return ["a"]

    assert isinstance(WithTasks(), TaskProvider)
    assert not isinstance(Careless(), TaskProvider)
