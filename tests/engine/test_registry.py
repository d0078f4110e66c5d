from __future__ import annotations

import functools
from typing import Any

import pytest

from openenv_grpc.crew import Crew
from openenv_grpc.engine import EngineSettings, SessionManager
from openenv_grpc.engine.registry import EnvironmentDefinition, register
from openenv_grpc.environment_spec import EnvironmentSpec
from openenv_grpc.errors import (
    ConcurrencyConfigurationError,
    ConfigurationError,
    InvalidActionError,
)
from openenv_grpc.tools import CallToolAction, CallToolObservation, ListToolsAction
from openenv_grpc.types import Action, Budgets, Observation
from tests.engine.process_environments import Isolated
from tests.engine.talking import definition
from tests.environments import (
    AsyncCountdown,
    Count,
    Countdown,
    InlineCountdown,
    Lonely,
    SharedCountdown,
    Strict,
    Tasks,
    Toolbox,
    ToolSteps,
)


@pytest.fixture(autouse=True)
def _no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MAX_CONCURRENT_ENVS", raising=False)


def spec_of(factory: Any, settings: EngineSettings | None = None, **fields: Any) -> EnvironmentSpec:
    return register(definition(factory, **fields), settings or EngineSettings()).spec


def test_a_close_is_waited_for_as_long_as_its_class_says_and_a_setting_goes_before() -> None:
    class Lasting(Countdown):
        BUDGETS = Budgets(close_s=90)

    class Quick(Countdown):
        BUDGETS = Budgets(close_s=1)

    def close_timeout_s(factory: Any, settings: EngineSettings) -> float:
        return register(definition(factory), settings).close_timeout_s

    assert close_timeout_s(Lasting, EngineSettings()) == 90
    assert close_timeout_s(Quick, EngineSettings()) == 10
    assert close_timeout_s(Lasting, EngineSettings(close_timeout_s=3)) == 3


def test_the_workers_of_a_server_share_its_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    def limits(factory: Any, max_sessions: int | None = None) -> list[int]:
        return [
            spec_of(
                factory,
                EngineSettings(
                    max_sessions=max_sessions, crew=Crew(server_id="s", worker=worker, size=3)
                ),
            ).session_limit
            for worker in range(3)
        ]

    assert limits(Countdown, 8) == [3, 3, 2]
    assert limits(Countdown) == [86, 85, 85]
    assert limits(Lonely) == limits(Lonely, 3) == [1, 1, 1]
    with pytest.raises(ConcurrencyConfigurationError):
        limits(Lonely, 4)
    with pytest.raises(ConfigurationError, match="2 sessions are too few for 3 workers"):
        limits(Countdown, 2)
    monkeypatch.setenv("MAX_CONCURRENT_ENVS", "4")
    assert limits(Countdown) == [2, 1, 1]


def test_budgets_of_another_kind_are_refused_in_a_class_of_ours_alone() -> None:
    class Wrong(Countdown):
        BUDGETS = {"step_s": 3}  # type: ignore[assignment]  # noqa: RUF012

    class Foreign:
        BUDGETS = 7

        def reset(self) -> None: ...

        def step(self, action: object) -> None: ...

    with pytest.raises(TypeError, match=r"BUDGETS is .* it has to be openenv_grpc\.Budgets"):
        spec_of(Wrong)
    assert spec_of(Foreign).budgets == Budgets()


def test_an_environment_is_described_by_its_class() -> None:
    class Limited(Strict):
        BUDGETS = Budgets(step_s=3)

    spec = spec_of(Limited)
    assert (spec.name, spec.factory_name) == ("Limited", "Limited")
    assert (spec.requires_reset, spec.budgets.step_s) == (True, 3)
    assert (spec.has_tools, spec.mcp_style, spec.has_tasks) == (False, False, False)
    assert spec.reset_observation_type is spec.observation_type
    assert spec_of(Tasks).has_tasks
    assert spec_of(functools.partial(Countdown)).name == "environment"
    assert spec_of(Countdown, name="count").name == "count"


@pytest.mark.parametrize(
    ("factory", "isolation"),
    [
        (Countdown, "thread"),
        (SharedCountdown, "shared"),
        (InlineCountdown, "inline"),
        (AsyncCountdown, "async"),
        (lambda: InlineCountdown(), "thread"),
    ],
)
def test_the_class_tells_where_it_runs(factory: Any, isolation: str) -> None:
    assert spec_of(factory).isolation == isolation


def test_where_it_runs_is_the_first_that_is_said() -> None:
    settings = EngineSettings(isolation="process")
    assert spec_of(SharedCountdown, settings).isolation == "process"
    assert spec_of(SharedCountdown, settings, isolation="thread").isolation == "thread"
    assert spec_of(AsyncCountdown, settings).isolation == "process"
    assert spec_of(AsyncCountdown, isolation="thread").isolation == "async"
    assert spec_of(lambda: Countdown(), settings, isolation="inline").isolation == "inline"
    assert spec_of(Isolated).isolation == "process"
    with pytest.raises(ConfigurationError, match="'island'"):
        spec_of(Countdown, isolation="island")


def test_tools_make_an_environment_with_tools_and_tool_actions_one_in_mcp_style() -> None:
    tools = spec_of(Toolbox, action_type=CallToolAction, observation_type=CallToolObservation)
    assert (tools.has_tools, tools.mcp_style) == (True, False)
    for action_type in (CallToolAction, ListToolsAction):
        style = spec_of(ToolSteps, action_type=action_type)
        assert (style.has_tools, style.mcp_style) == (False, True)
    assert not spec_of(ToolSteps, action_type=Action).mcp_style


def test_an_instance_is_no_factory() -> None:
    with pytest.raises(TypeError, match="not as Countdown"):
        spec_of(Countdown())


def test_a_class_that_is_no_environment_is_refused() -> None:
    with pytest.raises(TypeError, match="int is no environment"):
        spec_of(int)


def test_the_number_of_sessions_is_the_first_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = EngineSettings(max_sessions=5)
    assert spec_of(Countdown).session_limit == 256
    assert spec_of(Lonely).session_limit == 1
    assert spec_of(lambda: Countdown()).session_limit == 1
    monkeypatch.setenv("MAX_CONCURRENT_ENVS", "7")
    assert spec_of(Countdown).session_limit == 7
    assert spec_of(Countdown, settings).session_limit == 5
    assert spec_of(Countdown, settings, max_sessions=3).session_limit == 3


@pytest.mark.parametrize("asked", ["definition", "settings", "variable"])
def test_more_sessions_than_a_class_supports_are_refused(
    asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if asked == "variable":
        monkeypatch.setenv("MAX_CONCURRENT_ENVS", "2")
    settings = EngineSettings(max_sessions=2 if asked == "settings" else None)
    fields = {"max_sessions": 2} if asked == "definition" else {}
    with pytest.raises(ConcurrencyConfigurationError) as caught:
        spec_of(Lonely, settings, **fields)
    assert caught.value.environment_name == "Lonely"
    assert caught.value.max_concurrent_envs == 2
    with pytest.raises(ConcurrencyConfigurationError):
        spec_of(lambda: Lonely(), settings, **fields)


def test_a_function_is_called_once_to_see_what_it_builds_only_if_that_matters() -> None:
    built: list[Lonely] = []
    closed: list[bool] = []

    class Seen(Countdown):
        def close(self) -> None:
            closed.append(True)

    def build() -> Countdown:
        built.append(Seen())
        return built[-1]

    spec_of(build)
    assert built == []
    spec = spec_of(build, max_sessions=4)
    assert (len(built), closed) == (1, [True])
    assert (spec.concurrent_sessions, spec.session_limit) == (True, 4)


@pytest.mark.parametrize("value", ["0", "many", "-1", "1.5"])
def test_a_variable_that_is_no_number_of_sessions_is_refused(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAX_CONCURRENT_ENVS", value)
    with pytest.raises(ConfigurationError, match="MAX_CONCURRENT_ENVS"):
        spec_of(Countdown)


def test_less_than_one_session_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="at least 1"):
        spec_of(Countdown, max_sessions=0)


def test_names_are_used_once_and_there_is_at_least_one() -> None:
    with pytest.raises(ConfigurationError, match="'Countdown'"):
        SessionManager([definition(Countdown), definition(Countdown)])
    with pytest.raises(ConfigurationError, match="no environment"):
        SessionManager([])


def actions(action_type: Any) -> Any:
    made = EnvironmentDefinition(
        factory=ToolSteps, action_type=action_type, observation_type=Observation
    )
    return register(made, EngineSettings()).spec.action_reader


LISTING = {"type": "list_tools"}
CALLING = {"type": "call_tool", "tool_name": "say"}


@pytest.mark.parametrize("action_type", [Action, CallToolAction, ListToolsAction])
def test_the_bare_action_classes_take_tool_actions(action_type: Any) -> None:
    reader = actions(action_type)
    assert type(reader.from_value(LISTING)) is ListToolsAction
    assert type(reader.from_value(CALLING)) is CallToolAction


def test_other_action_classes_take_no_tool_actions() -> None:
    with pytest.raises(InvalidActionError):
        actions(Count).from_value(LISTING)
    assert type(actions(CallToolAction).from_value({"tool_name": "say"})) is CallToolAction
    with pytest.raises(InvalidActionError):
        actions(Action).from_value({"tool_name": "say"})


class Say(CallToolAction):
    tool_name: str = "say"


def test_an_environment_with_tools_takes_tool_actions_beside_its_own() -> None:
    reader = spec_of(Toolbox, action_type=Count).action_reader
    assert type(reader.from_value(LISTING)) is ListToolsAction
    assert type(reader.from_value(CALLING)) is CallToolAction
    assert type(reader.from_value({"by": 2})) is Count
    said = spec_of(Toolbox, action_type=Say).action_reader
    assert type(said.from_value(LISTING)) is ListToolsAction
    assert type(said.from_value(CALLING)) is Say
