"""The public face: what is exported, and what importing it costs."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import inspect
import subprocess
import sys

import pytest

import openenv_grpc

FACE = """
    Action Array Budgets CallToolAction CallToolObservation ClientAnswerError
    ClientCapabilityError CompositeTransform ConcurrencyConfig ConcurrencyConfigurationError
    ConfigurationError DeadlineExceededError Effect EnvClient
    Environment EnvironmentDefinition EnvironmentFactoryError EnvironmentFailedError
    EnvironmentMetadata GenericAction GenericEnvClient InvalidActionError ListToolsAction
    ListToolsObservation MCPEnvironment MCPToolClient Media Message ModelTokenizer NullTransform
    Observation OpenEnvError Reason Rubric Server ServerMode SessionCapacityError
    SessionNotFoundError SnapshotProvider State StepResult SyncEnvClient TaskProvider Tool ToolError
    ToolErrorType ToolOutcome Transform UnavailableError VectorEnvClient __version__ create_app
    create_fastapi_app create_web_interface_app elicit prompt report_changed report_log
    report_progress report_updated resource roots sample serve tool
"""

IMPORTED = "import sys, openenv_grpc; print(*sys.modules, sep=chr(10))"


def test_the_public_face_is_what_it_was() -> None:
    assert FACE.split() == openenv_grpc.__all__


def test_every_name_of_it_is_there_and_listed() -> None:
    for name in openenv_grpc.__all__:
        assert getattr(openenv_grpc, name) is not None

    assert set(openenv_grpc.__all__) <= set(dir(openenv_grpc))


def test_a_name_is_what_checkers_are_told_that_it_is() -> None:
    tree = ast.parse(inspect.getsource(openenv_grpc))
    homes = {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("openenv_grpc")
        for alias in node.names
    }

    assert homes.keys() == set(openenv_grpc.__all__) - {"__version__"}
    for name, home in homes.items():
        assert getattr(openenv_grpc, name) is getattr(importlib.import_module(str(home)), name)


@pytest.mark.parametrize("module", ["app", "client", "errors", "serving", "tools", "types"])
def test_the_modules_behind_it_are_attributes_too(module: str) -> None:
    program = f"import openenv_grpc; print(openenv_grpc.{module}.__name__)"
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )

    assert run.stdout == f"openenv_grpc.{module}\n"


def test_what_it_has_not_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"openenv_grpc.*nothing_of_the_kind"):
        _ = openenv_grpc.nothing_of_the_kind


def test_the_version_is_that_of_the_distribution() -> None:
    assert importlib.metadata.version("openenv-grpc") == openenv_grpc.__version__


@pytest.mark.parametrize(
    "module",
    [
        "aiohttp",
        "grpc",
        "google.protobuf",
        "mcp",
        "fastmcp",
        "numpy",
        "uvloop",
        "gymnasium",
        "opentelemetry",
        "pydantic",
        "openenv_bridge",
        "openenv_grpc.app",
        "openenv_grpc.client",
        "openenv_grpc.engine",
        "openenv_grpc.environment",
        "openenv_grpc.serving",
        "openenv_grpc.server",
    ],
)
def test_importing_the_package_does_not_import(module: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", IMPORTED], capture_output=True, text=True, timeout=60, check=True
    )

    assert module not in run.stdout.split()
