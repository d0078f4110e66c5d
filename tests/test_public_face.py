"""The public face: what is exported, and what importing it costs."""

from __future__ import annotations

import importlib.metadata
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


def test_the_version_is_that_of_the_distribution() -> None:
    assert importlib.metadata.version("openenv-grpc") == openenv_grpc.__version__


@pytest.mark.parametrize(
    "module",
    [
        "aiohttp",
        "mcp",
        "fastmcp",
        "numpy",
        "uvloop",
        "gymnasium",
        "opentelemetry",
        "openenv_bridge",
        "openenv_grpc.engine",
        "openenv_grpc.server",
    ],
)
def test_importing_the_package_does_not_import(module: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", IMPORTED], capture_output=True, text=True, timeout=60, check=True
    )

    assert module not in run.stdout.split()
