"""What `serve` is given, and what it finds."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from echo_env import EchoAction, EchoObservation
from openenv_grpc import CallToolAction, CallToolObservation
from openenv_grpc.errors import ConfigurationError
from openenv_grpc.targets import Overrides, load
from openenv_grpc.types import ServerMode, State

REPOSITORY = Path(__file__).parents[1]

COUNTER = """
    from openenv_grpc import Action, Environment, Observation, State


    class Count(Action):
        by: int = 1


    class Total(Observation):
        total: int = 0


    class Tally(State):
        total: int = 0


    class Counter(Environment):
        total = 0

        def reset(self, seed=None, episode_id=None) -> Total:
            self.total = 0
            return Total()

        def step(self, action: Count) -> Total:
            self.total += action.by
            return Total(total=self.total)


    class Parameters(Environment[Count, Total, Tally]):
        def reset(self, seed=None, episode_id=None):
            return Total()

        def step(self, action):
            return Total()

        @property
        def state(self):
            return Tally()


    class Untold(Environment):
        def reset(self, seed=None, episode_id=None):
            return Total()

        def step(self, action):
            return Total()


    class NoEnvironment:
        pass


    def build() -> Counter:
        return Counter()


    number = 7
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty current folder; what is imported from it is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) or name == "server":
            del sys.modules[name]


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text), encoding="utf-8")


def test_an_installed_environment_is_found_by_its_name() -> None:
    definition = load("echo_env")

    assert definition.name == "echo_env"
    assert definition.factory.__name__ == "EchoEnvironment"
    assert definition.action_type is EchoAction


def test_a_folder_is_found_by_its_path_whatever_the_current_folder_is() -> None:
    definition = load(str(REPOSITORY / "envs" / "echo_env"))

    assert definition.factory is load("echo_env").factory


def test_a_folder_outside_the_path_is_imported_as_the_package_that_it_is(folder: Path) -> None:
    package = folder / "elsewhere" / "counter_env"
    write(package / "__init__.py", "")
    write(package / "models.py", COUNTER)
    write(package / "openenv.yaml", "name: counter\napp: server.app:app\n")
    write(
        package / "server" / "app.py",
        """
        from openenv_grpc import create_app
        from ..models import Count, Counter, Total

        app = create_app(Counter, Count, Total)
        """,
    )

    definition = load("elsewhere/counter_env")

    assert definition.name == "counter"
    assert definition.factory.__module__ == "counter_env.models"


def test_a_folder_that_is_no_package_may_import_from_itself(folder: Path) -> None:
    write(folder / "plain" / "models.py", COUNTER)
    write(folder / "plain" / "openenv.yaml", "name: plain\napp: app:app\n")
    write(
        folder / "plain" / "app.py",
        """
        from models import Count, Counter, Total
        from openenv_grpc import create_app

        app = create_app(Counter, Count, Total, env_name="counter")
        """,
    )

    assert load("plain").name == "counter"


def test_classes_are_read_off_the_annotations_of_step(folder: Path) -> None:
    write(folder / "games.py", COUNTER)

    definition = load("games:Counter")

    assert definition.action_type.__name__ == "Count"
    assert definition.observation_type.__name__ == "Total"
    assert definition.state_type is State


def test_classes_are_read_off_type_parameters(folder: Path) -> None:
    write(folder / "games.py", COUNTER)

    definition = load("games:Parameters")

    assert definition.action_type.__name__ == "Count"
    assert definition.observation_type.__name__ == "Total"
    assert definition.state_type.__name__ == "Tally"


def test_classes_are_read_off_the_class_that_a_function_returns(folder: Path) -> None:
    write(folder / "games.py", COUNTER)

    definition = load("games:build")

    assert definition.factory.__name__ == "build"
    assert definition.action_type.__name__ == "Count"


def test_the_own_actions_of_an_environment_with_tools_are_read_off_step_impl() -> None:
    definition = load("echo_env.server.echo_environment:EchoEnvironment")

    assert definition.action_type is EchoAction
    assert definition.observation_type is EchoObservation


def test_the_own_actions_of_an_environment_with_tools_may_be_type_parameters(folder: Path) -> None:
    write(
        folder / "games.py",
        """
        from openenv_grpc import Action, MCPEnvironment, Observation, State


        class Move(Action):
            to: int


        class Seen(Observation):
            at: int = 0


        class Told(State):
            moves: int = 0


        class Walk(MCPEnvironment[Move, Seen, Told]):
            def reset(self, seed=None, episode_id=None):
                return Seen()

            def _step_impl(self, action, timeout_s=None, **kwargs):
                return Seen(at=action.to)
        """,
    )

    found = load("games:Walk")

    types = (found.action_type, found.observation_type, found.state_type)
    assert [each.__name__ for each in types] == ["Move", "Seen", "Told"]


def test_an_environment_of_tools_alone_takes_tool_calls(folder: Path) -> None:
    write(
        folder / "games.py",
        """
        from openenv_grpc import MCPEnvironment, Observation, tool


        class Tools(MCPEnvironment):
            @tool
            def look(self) -> str:
                return "dark"

            def reset(self, seed=None, episode_id=None) -> Observation:
                return Observation()
        """,
    )

    definition = load("games:Tools")

    assert definition.action_type is CallToolAction
    assert definition.observation_type is CallToolObservation


def test_what_is_said_beside_a_target_comes_first(folder: Path) -> None:
    write(folder / "games.py", COUNTER)

    definition = load(
        "games:Untold",
        Overrides(
            name="mine", action="games:Count", observation="games:Total", state="games:Tally"
        ),
    )

    assert definition.name == "mine"
    assert definition.action_type.__name__ == "Count"
    assert definition.observation_type.__name__ == "Total"
    assert definition.state_type.__name__ == "Tally"


def test_the_mode_of_a_class_is_that_of_the_variable(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder / "games.py", COUNTER)
    monkeypatch.setenv("OPENENV_MODE", "production")

    assert load("games:Counter").mode is ServerMode.PRODUCTION


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("nowhere", "there is no environment 'nowhere'"),
        ("empty", "has no openenv.yaml"),
        ("broken_manifest", "cannot be read"),
        ("list_manifest", "has to be a mapping"),
        ("no_module", "cannot be imported: ModuleNotFoundError"),
        ("no_app", "is not made by create_app"),
        ("raising", "cannot be imported: RuntimeError: no such thing"),
        ("bad_mode", "there is no mode 'dreaming'"),
        ("games:", "has to be of the form module:Class"),
        ("games:Missing", "there is no 'Missing' in the module games"),
        ("missing_games:Counter", "missing_games cannot be imported"),
        ("games:number", "games:number is a int, not a class"),
        ("games:NoEnvironment", "is no environment: it has no reset()"),
        ("games:Untold", "say --action module:Class"),
    ],
)
def test_what_cannot_be_served_is_told_in_one_line(folder: Path, target: str, told: str) -> None:
    write(folder / "games.py", COUNTER)
    (folder / "empty").mkdir()
    write(folder / "broken_manifest" / "openenv.yaml", "a: [")
    write(folder / "list_manifest" / "openenv.yaml", "- a")
    write(folder / "no_module" / "openenv.yaml", "app: nothing_here:app")
    write(folder / "no_app" / "openenv.yaml", "app: unmade:app")
    write(folder / "no_app" / "unmade.py", "app = object()")
    write(folder / "raising" / "openenv.yaml", "app: raises:app")
    write(folder / "raising" / "raises.py", "raise RuntimeError('no such\\nthing')")
    write(folder / "bad_mode" / "openenv.yaml", "app: dreams:app")
    write(
        folder / "bad_mode" / "dreams.py",
        """
        from openenv_grpc import Action, Observation, create_app

        app = create_app(object, Action, Observation, mode="dreaming")
        """,
    )

    with pytest.raises(ConfigurationError) as caught:
        load(target)

    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_override_that_is_no_model_is_refused(folder: Path) -> None:
    write(folder / "games.py", COUNTER)

    with pytest.raises(ConfigurationError, match="games:number is no pydantic model"):
        load("games:Untold", Overrides(action="games:number"))


def test_a_folder_named_like_another_loaded_package_is_refused(folder: Path) -> None:
    write(folder / "json" / "__init__.py", "")
    write(folder / "json" / "openenv.yaml", "app: server.app:app")

    with pytest.raises(ConfigurationError, match="another package named json is loaded"):
        load(str(folder / "json"))


@pytest.mark.reference
def test_an_app_of_the_reference_is_taken_for_what_it_was_made_of(reference_python: Path) -> None:
    script = """
        from openenv_grpc.targets import load

        definition = load("tests/envs/reference_echo")
        import openenv.core.env_server as reference

        print(definition.name, definition.factory.__name__, definition.action_type.__module__)
        print(definition.max_sessions, reference.create_app.__module__)
    """

    run = subprocess.run(
        [reference_python, "-c", textwrap.dedent(script)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == [
        "reference_echo ReferenceEchoEnvironment openenv.core.env_server.mcp_types",
        "16 openenv.core.env_server.http_server",
    ]


def test_a_module_that_ends_the_program_is_an_error_like_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "quits.py").write_text("raise SystemExit(3)")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigurationError, match="quits cannot be imported: SystemExit: 3"):
        load("quits:Environment")


def test_an_environment_of_gymnasium_is_named_by_its_id() -> None:
    definition = load("gym:CartPole-v1")
    assert definition.name == "CartPole-v1"
    assert definition.action_type.model_validate({"action": 1}).action == 1
    with pytest.raises(ConfigurationError, match="gymnasium cannot make 'Nothing-v0'"):
        load("gym:Nothing-v0")


def test_an_environment_of_gymnasium_needs_gymnasium(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openenv_grpc.gymnasium", None)
    with pytest.raises(ConfigurationError, match="pip install 'openenv-grpc\\[gymnasium\\]'"):
        load("gym:CartPole-v1")
