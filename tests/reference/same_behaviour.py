"""Our classes beside the reference's: the same calls, the same results. Needs the reference."""

from __future__ import annotations

from typing import Any

import pytest
from fastmcp import FastMCP
from openenv.core import env_server, rubrics
from openenv.core.env_server import mcp_environment, mcp_types
from pydantic import BaseModel

from openenv_grpc import json_forms, tools, types
from openenv_grpc import mcp_environment as our_mcp_environment
from openenv_grpc import rubrics as our_rubrics
from openenv_grpc.serialization import dump_json, parse_json

MODELS = [
    "Action",
    "Observation",
    "State",
    "EnvironmentMetadata",
    "ConcurrencyConfig",
]
TOOL_MODELS = [
    "Tool",
    "ToolError",
    "ListToolsAction",
    "CallToolAction",
    "ListToolsObservation",
    "CallToolObservation",
]


def shape(model: type[BaseModel]) -> dict[str, Any]:
    """Returns a model's schema without what is there for people."""
    return _bare(model.model_json_schema())


def _bare(schema: Any) -> Any:
    match schema:
        case dict():
            return {
                name: _bare(part)
                for name, part in schema.items()
                if name not in ("title", "description")
                or isinstance(part, dict)  # a property of that name
            }
        case list():
            return [_bare(part) for part in schema]
        case _:
            return schema


@pytest.mark.parametrize("name", MODELS)
def test_models_take_and_refuse_the_same(name: str) -> None:
    assert shape(vars(types)[name]) == shape(vars(env_server.types)[name])


@pytest.mark.parametrize("name", TOOL_MODELS)
def test_tool_models_take_and_refuse_the_same(name: str) -> None:
    assert shape(vars(tools)[name]) == shape(vars(mcp_types)[name])


def test_the_same_tool_names_are_reserved() -> None:
    assert mcp_types.RESERVED_TOOL_NAMES == tools.RESERVED_TOOL_NAMES


def text() -> str:
    """Says it.

    Twice.

    Args:
        nothing: There is none.
    """
    return "hi"


def number(a: int, b: float = 1.5) -> float:
    """Adds.

    Args:
        a: One.
        b: Another.
    """
    return a + b


def numbers() -> list[int]:
    return [1, 2]


def facts() -> dict[str, int]:
    return {"a": 1}


def perhaps() -> int | None:
    return None


FUNCTIONS = (text, number, numbers, facts, perhaps)


class Theirs(mcp_environment.MCPEnvironment):
    def __init__(self) -> None:
        server = FastMCP("tools")
        for function in FUNCTIONS:
            server.tool(function)
        super().__init__(server)

    def reset(self, **kwargs: Any) -> Any: ...

    def _step_impl(self, action: Any, **kwargs: Any) -> Any: ...

    state = None


class Ours(our_mcp_environment.MCPEnvironment):
    def __init__(self) -> None:
        for function in FUNCTIONS:
            self.tool()(function)
        super().__init__()

    def reset(self, **kwargs: Any) -> types.Observation:
        return types.Observation()


def sent(observation: Any) -> Any:
    serialized = json_forms.serialize_observation(observation)
    return parse_json(dump_json(serialized))


def test_tools_are_listed_alike() -> None:
    theirs = Theirs().step(mcp_types.ListToolsAction())
    ours = Ours().step(tools.ListToolsAction())

    assert sent(ours) == sent(theirs)


@pytest.mark.parametrize("name", [function.__name__ for function in FUNCTIONS])
def test_tools_answer_alike(name: str) -> None:
    call = {"tool_name": name, "arguments": {"a": 2} if name == "number" else {}}

    theirs = Theirs().step(mcp_types.CallToolAction(**call))
    ours = Ours().step(tools.CallToolAction(**call))

    assert sent(ours) == sent(theirs)


def test_an_unknown_tool_fails_alike() -> None:
    theirs = Theirs().step(mcp_types.CallToolAction(tool_name="nosuch"))
    ours = Ours().step(tools.CallToolAction(tool_name="nosuch"))

    assert sent(ours) == sent(theirs)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"reward": True, "done": True, "metadata": {"a": 1}},
    ],
    ids=["plain", "full"],
)
def test_observations_are_serialized_alike(fields: dict[str, Any]) -> None:
    theirs = env_server.serialize_observation(env_server.Observation(**fields))

    assert json_forms.serialize_observation(types.Observation(**fields)) == theirs


class Given:
    """An observation with scores to be given."""

    def __init__(self, *, done: bool, **scores: float) -> None:
        self.done = done
        self.scores = scores


def judged(package: Any) -> list[float]:
    """Scores an episode with every kind of rubric of a package."""

    class Named(package.Rubric):  # type: ignore[misc]  # of either package
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def forward(self, action: Any, observation: Any) -> float:
            return float(observation.scores[self.name])

    class Whole(package.ExponentialDiscountingTrajectoryRubric):  # type: ignore[misc]
        def score_trajectory(self, trajectory: Any) -> float:
            return float(len(trajectory))

    whole = Whole(gamma=0.5)
    parts = package.WeightedSum([Named("a"), Named("b")], [0.25, 0.75])
    row = package.Sequential(package.Gate(Named("a"), threshold=0.5), parts)
    episode = [
        Given(done=False, a=0.5, b=1.0),
        Given(done=False, a=0.4, b=1.0),
        Given(done=True, a=1.0, b=0.0),
    ]
    scores = [rubric("act", given) for given in episode for rubric in (row, whole)]
    names = [name for name, _ in row.named_rubrics()]
    assert names == ["rubric_0", "rubric_0.rubric", "rubric_1"] + [
        f"rubric_1.rubric_{number}" for number in (0, 1)
    ]
    return scores + whole.compute_step_rewards()


def test_rubrics_score_alike() -> None:
    assert judged(our_rubrics) == judged(rubrics)
